"""Fit and predict with rows that are read in blocks, by threads, processes or the workers of a cluster."""

from pacbayes.streaming._blocks import SourceSample
from pacbayes.streaming._fit import Stream, open_stream
from pacbayes.streaming._workers import Workers

__all__ = ["SourceSample", "Stream", "Workers", "open_stream"]
