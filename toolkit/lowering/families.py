"""Importing this fills the rule table."""

from . import activation, creation, indexing, joining, library, normalisation, pointwise, pooling, reduction, resampling, special, view

FAMILIES = (pointwise, activation, view, joining, reduction, indexing, creation, pooling, resampling, normalisation, library, special)
