"""The laboratory: whole studies with simulated people."""

from truthful.simulation.cast import read_agents
from truthful.simulation.rates import rates
from truthful.simulation.simulation import Simulation, simulate

__all__ = ["Simulation", "rates", "read_agents", "simulate"]
