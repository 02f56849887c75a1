"""Shallow water on a staggered grid: a pointwise kernel with many slices."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


class ShallowWater(nn.Module):
    """Some steps of the linear shallow-water equations with rotation, on Arakawa's C grid.

    Heights are in the middle of cells, velocities on their edges; the coast is a wall. Forward in
    the velocities, then backward in the height (Mesinger and Arakawa, 1976).

    Parameters
    ----------
    steps
        How many.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.gravity = nn.Parameter(torch.tensor(1.0))
        self.depth = nn.Parameter(torch.tensor(1.0))
        self.rotation = nn.Parameter(torch.tensor(0.1))
        self.friction = nn.Parameter(torch.tensor(0.01))

    def forward(
        self, height: torch.Tensor, east: torch.Tensor, north: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Go on in time.

        Parameters
        ----------
        height
            (n, m), of the surface over its rest.
        east
            (n, m + 1): the velocity along m at the cells' edges, 0 at the coast.
        north
            (n + 1, m): the velocity along n.

        Returns
        -------
        tuple
            The three, of the same shapes.
        """
        step = 0.2
        for _ in range(self.steps):
            # Each velocity meets the mean of the four of the other kind around it.
            across = (north[:-1, :-1] + north[1:, :-1] + north[:-1, 1:] + north[1:, 1:]) / 4
            along = (east[:-1, :-1] + east[1:, :-1] + east[:-1, 1:] + east[1:, 1:]) / 4
            slope = height[:, 1:] - height[:, :-1]
            force = self.rotation * across - self.gravity * slope - self.friction * east[:, 1:-1]
            east = torch.nn.functional.pad(east[:, 1:-1] + step * force, (1, 1))
            slope = height[1:] - height[:-1]
            force = -self.rotation * along - self.gravity * slope - self.friction * north[1:-1]
            north = torch.nn.functional.pad(north[1:-1] + step * force, (0, 0, 1, 1))
            flow = east[:, 1:] - east[:, :-1] + north[1:] - north[:-1]
            height = height - step * self.depth * flow
        return height, east, north


def _water(steps: int, rows: int, columns: int) -> Built:
    lines = torch.linspace(-3, 3, rows).unsqueeze(1), torch.linspace(-3, 3, columns)
    height = torch.exp(-(lines[0] ** 2) - lines[1] ** 2)
    still = torch.zeros(rows, columns + 1), torch.zeros(rows + 1, columns)
    return Built(ShallowWater(steps), (height, *still), {})


MODELS = (
    Model(
        "shallow water",
        "Arakawa's C grid, written out here, 10 steps of 256 by 256 cells",
        lambda: _water(10, 256, 256),
        lambda: _water(2, 8, 9),
        batched=False,
    ),
)
