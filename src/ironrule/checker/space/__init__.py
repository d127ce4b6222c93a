"""Tables, spaces and constraints, as the checker itself reads them."""
