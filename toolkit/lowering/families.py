"""Importing this fills the rule table."""

from . import (
    activation,
    adaptive,
    antialias,
    convolution,
    creation,
    indexing,
    joining,
    library,
    mixing,
    pointwise,
    pooling,
    products,
    reduction,
    resampling,
    restride,
    searching,
    special,
    unpooling,
    view,
)

FAMILIES = (
    *(pointwise, activation, special, view, restride, joining, reduction, indexing, searching, creation),
    *(pooling, unpooling, adaptive, resampling, antialias, mixing, library, products, convolution),
)
