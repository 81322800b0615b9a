"""What every page is made on: the figure's canvas, and the HTML templates with all text escaped."""
