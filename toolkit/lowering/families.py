"""Importing this fills the rule table."""

from . import activation, creation, indexing, joining, matmul, pointwise, pooling, reduction, view

FAMILIES = (pointwise, activation, view, joining, reduction, indexing, creation, pooling, matmul)
