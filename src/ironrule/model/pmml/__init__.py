"""PMML, the exchange format for predictive models (Data Mining Group, versions 4.0 to 4.4): parsed, and evaluated."""
