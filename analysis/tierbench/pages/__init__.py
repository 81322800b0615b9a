"""What people read: the report of a run, comparisons and histories as HTML, Markdown, tables and exports."""
