"""The pictures of the documentation that show what people see: pages, reports, and the terminal."""
