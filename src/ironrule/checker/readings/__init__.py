"""Second readings: how the checker itself reads the models of each library."""
