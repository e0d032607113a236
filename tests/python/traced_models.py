"""Small models of every kind that the op source must follow, each with one deterministic input.

`MODELS[name]()` gives `(model, args, kwargs)`, in eval mode; `loss_of(model(*args, **kwargs))` is a number to
differentiate.
"""

import models
import torch
from torch import nn
from torch.nn import functional as F


def loss_of(output):
    """The mean square of every float tensor of an output: nothing of it is without a gradient."""
    if torch.is_tensor(output):
        return output.float().square().mean() if output.is_floating_point() else output.new_zeros((), dtype=torch.float)
    parts = output.values() if isinstance(output, dict) else output
    return sum((loss_of(each) for each in parts if torch.is_tensor(each)), torch.zeros(()))


def _seeded(make, *arguments, **options):
    torch.manual_seed(0)
    return make(*arguments, **options).eval()


def _random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def _of_transformers(build, **more):
    """Without a cache, which is no tensor and would be returned as well."""

    def make():
        model, kwargs = build()
        return model, (), {**kwargs, **more}

    return make


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=83, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=32,
    )  # fmt: skip
    ids = torch.randint(1, 83, (2, 6), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    return _seeded(BertModel, config), (), {"input_ids": ids, "attention_mask": mask}


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=79, n_embd=32, n_layer=2, n_head=4, n_positions=32, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    ids = torch.randint(1, 79, (2, 6), generator=torch.Generator().manual_seed(1))
    return _seeded(GPT2LMHeadModel, config), (), {"input_ids": ids, "use_cache": False}


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after)
        same = before == after and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        y += self.shortcut(x)
        return F.relu(y)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


def resnet():
    return _seeded(ResNet), (_random(2, 3, 16, 16),), {}


class Recurrent(nn.Module):
    """An LSTM in both directions, then a GRU."""

    def __init__(self, batch_first):
        super().__init__()
        self.embed = nn.Embedding(31, 12)
        self.lstm = nn.LSTM(12, 10, num_layers=2, bidirectional=True, batch_first=batch_first)
        self.gru = nn.GRU(20, 8, batch_first=batch_first)
        self.head = nn.Linear(8, 31)

    def forward(self, ids):
        x, _ = self.lstm(self.embed(ids))
        x, last = self.gru(x)
        return self.head(x), last


def rnn(*, batch_first):
    ids = torch.randint(0, 31, (2, 7), generator=torch.Generator().manual_seed(1))
    return _seeded(Recurrent, batch_first), (ids,), {}


class Denoise(nn.Module):
    """Convolutions that know the time step."""

    def __init__(self, before, after, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, before), nn.Conv2d(before, after, 3, padding=1)
        self.time = nn.Linear(time, after)
        self.norm2, self.conv2 = nn.GroupNorm(4, after), nn.Conv2d(after, after, 3, padding=1)
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1)

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class ImageAttention(nn.Module):
    def __init__(self, channels, heads, copies):
        super().__init__()
        self.heads, self.copies = heads, copies
        self.norm = nn.GroupNorm(4, channels)
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        batch, channels, height, width = x.shape
        parts = self.qkv(self.norm(x)).reshape(batch, 3, self.heads, channels // self.heads, height * width)
        parts = parts.transpose(-1, -2)
        query, key, value = (parts.contiguous() if self.copies else parts).unbind(1)
        y = F.scaled_dot_product_attention(query, key, value)
        y = y.transpose(-1, -2)
        return x + self.out(y.contiguous().view(x.shape) if self.copies else y.reshape(x.shape))


class UNet(nn.Module):
    def __init__(self, attention_copies, channels=8, time=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(channels, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down1 = Denoise(channels, channels, time)
        self.shrink = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.down2 = Denoise(channels, 2 * channels, time)
        self.attention = ImageAttention(2 * channels, 2, attention_copies)
        self.middle = Denoise(2 * channels, 2 * channels, time)
        self.up2 = Denoise(4 * channels, channels, time)
        self.up1 = Denoise(2 * channels, channels, time)
        self.last = nn.Conv2d(channels, 3, 3, padding=1)
        self.register_buffer("frequencies", torch.exp(-torch.arange(channels // 2) * 2.0))

    def forward(self, x, step):
        angles = step[:, None].float() * self.frequencies[None, :]
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1))
        wide = self.down1(self.first(x), time)
        deep = self.attention(self.down2(self.shrink(wide), time))
        y = self.up2(torch.cat([self.middle(deep, time), deep], dim=1), time)
        y = F.interpolate(y, scale_factor=2.0, mode="nearest")
        return self.last(F.silu(self.up1(torch.cat([y, wide], dim=1), time)))


def unet(*, attention_copies):
    return _seeded(UNet, attention_copies), (_random(2, 3, 8, 8), torch.tensor([3, 250])), {}


MODELS = {
    "minilm": _of_transformers(models.minilm),  # an encoder with real weights
    "bert": bert,
    "llama": _of_transformers(models.llama, use_cache=False),
    "gpt2": gpt2,
    "t5": _of_transformers(models.t5, use_cache=False),
    "moe": _of_transformers(models.mixture_of_experts, use_cache=False),
    "vit": _of_transformers(models.vit),
    "resnet": resnet,
    "rnn": lambda: rnn(batch_first=False),
    "rnn, batch first": lambda: rnn(batch_first=True),
    "unet": lambda: unet(attention_copies=True),
    "unet, reshaping": lambda: unet(attention_copies=False),
}
