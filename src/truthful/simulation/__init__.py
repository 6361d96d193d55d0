"""The laboratory: whole studies with simulated people."""

from truthful.simulation.population import read_agents
from truthful.simulation.simulation import AskedSimulation, ShareSimulation, Simulation, rates, simulate

__all__ = ["AskedSimulation", "ShareSimulation", "Simulation", "rates", "read_agents", "simulate"]
