"""Believe: priors and noise laws, peer curves, and the own prediction, by quadrature or by table."""

from truthful.beliefs.beliefs import Beliefs
from truthful.beliefs.curves import IDENTITY, Clipped, Curve, Identity, Shrunk
from truthful.beliefs.laws import CustomNoise, NormalBall, TruncatedNormal, UniformBall, UniformNoise

__all__ = [
    "IDENTITY",
    "Beliefs",
    "Clipped",
    "Curve",
    "CustomNoise",
    "Identity",
    "NormalBall",
    "Shrunk",
    "TruncatedNormal",
    "UniformBall",
    "UniformNoise",
]
