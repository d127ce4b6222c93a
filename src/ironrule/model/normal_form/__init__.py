"""Normal forms: what readers turn models into. A sum of trees, or a network, over the columns that the model sees."""
