"""The backend for neural networks: bound propagation (CROWN) inside branch and bound."""
