"""The network before the LSTM, for the systems that take one from outside."""

import torch
from settings import Settings

from ver_core.encoders import small_cnn


class Features(torch.nn.Module):
    """Vector and image -> linear, tanh."""

    def __init__(self, settings: Settings, vector, image=None):
        """Take the spaces (or specs) of the two; those may have leading dimensions."""
        super().__init__()
        size, self.cnn = vector.shape[-1], None
        if image is not None:
            height, width, channels = image.shape[-3:]
            # Some initialise its weights anew, for which torch wants them in its own order; the images stay in theirs.
            cnn = small_cnn(channels, height, width, settings.image_features)
            self.cnn = cnn.to(memory_format=torch.contiguous_format)
            size += settings.image_features
        self.linear = torch.nn.Sequential(torch.nn.Linear(size, settings.hidden), torch.nn.Tanh())

    def forward(self, vector, image=None):
        """Map (..., size) and (..., H, W, C) to (..., hidden)."""
        if self.cnn is not None:
            seen = self.cnn(image.reshape(-1, *image.shape[-3:])).reshape(*image.shape[:-3], -1)
            vector = torch.cat([seen, vector], dim=-1)
        return self.linear(vector)
