"""The paper's experiments and the comparisons with peers. Outside the package; see README.md beside this file."""
