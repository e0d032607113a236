"""TensorTap records what every operator of a model really produced."""

__version__ = "0.1.0"

__all__ = ["__version__"]
