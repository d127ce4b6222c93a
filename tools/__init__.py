"""What a release needs and the package does not: lists of what is installed with it."""
