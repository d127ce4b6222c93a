"""What every page and its JSON form show, as plain data."""
