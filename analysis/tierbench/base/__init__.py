"""What every room uses: messages about bad input, numbers as words, files that are replaced whole."""
