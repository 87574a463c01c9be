"""Importing this fills the rule table."""

from . import (
    activation,
    convolution,
    creation,
    indexing,
    joining,
    library,
    normalisation,
    pointwise,
    pooling,
    products,
    reduction,
    resampling,
    special,
    view,
)

FAMILIES = (
    pointwise, activation, view, joining, reduction, indexing, creation, pooling, resampling, normalisation, library, special, products,
    convolution,
)  # fmt: skip
