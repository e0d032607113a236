#: a call
show(model(x))

#: called in a loop
for number in range(5):
    show(model(x + number))

#: the same module twice
layer = nn.Linear(4, 4)
show(nn.Sequential(layer, nn.ReLU(), layer)(x))

#: a module inside itself by a function
class Calls(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x, depth=3):
        return self.layer(x) if depth == 0 else self(x, depth - 1) + 1
show(Calls()(x))

#: outputs of many kinds
import collections
Pair = collections.namedtuple("Pair", "first second")
class Gives(nn.Module):
    def forward(self, x):
        return Pair(x, [x + 1, {"key": (x + 2, None, 3, "text")}])
output = Gives()(x)
show(output.first, output.second[0], output.second[1]["key"][0])
print(type(output).__name__, output.second[1]["key"][1:])

#: no output
class Gives(nn.Module):
    def forward(self, x):
        self.seen = x
print(Gives()(x))

#: keyword arguments
class Takes(nn.Module):
    def forward(self, x, *, scale=1, **more):
        return x * scale + sum(more.values())
show(Takes()(x, scale=3, one=1, two=2))

#: hooks of the program, in their order
order = []
model.register_forward_pre_hook(lambda module, args: order.append("before"))
model.register_forward_hook(lambda module, args, output: order.append("after"))
model[0].register_forward_hook(lambda module, args, output: order.append("inside"))
model(x)
print(order)

#: a hook that changes the output
model[0].register_forward_hook(lambda module, args, output: output * 2)
show(model(x))

#: a hook that changes the input
model.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
show(model(x))

#: a hook that removes itself
handle = model.register_forward_hook(lambda module, args, output: handle.remove())
model(x)
print(len(model._forward_hooks) - len([hook for hook in model._forward_hooks.values() if "tensortap" in type(hook).__module__]))

#: hooks of all modules
from torch.nn.modules.module import register_module_forward_hook
names = []
handle = register_module_forward_hook(lambda module, args, output: names.append(type(module).__name__))
model(x)
handle.remove()
print(names)

#: a copy
twin = copy.deepcopy(model)
show(twin(x))
print([type(module).__name__ for module in twin.modules()])

#: a pickle
show(pickle.loads(pickle.dumps(model))(x))

#: saved and loaded
buffer = io.BytesIO()
model(x)
torch.save(model.state_dict(), buffer)
buffer.seek(0)
print(list(torch.load(buffer)))

#: a module that is replaced
model(x)
model[1] = nn.Tanh()
show(model(x))

#: a module that is added later
model(x)
model.append(nn.Linear(2, 3))
show(model(x))

#: a module that is removed
model(x)
del model[2]
show(model(x))

#: eval and train
net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
show(net(x), net[1].running_mean)
show(net.eval()(x))

#: lazy modules
net = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
show(net(x))
print(net)

#: parametrisations
nn.utils.parametrizations.weight_norm(model[0])
show(model(x))

#: pruned weights
import torch.nn.utils.prune
nn.utils.prune.l1_unstructured(model[0], "weight", 0.5)
show(model(x))

#: an attention layer
attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
with torch.no_grad():
    show(*attention(x[None], x[None], x[None]))

#: an encoder layer on its fast path
layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
with torch.no_grad():
    show(layer(x[None]))

#: a recurrent network
net = nn.LSTM(4, 3, batch_first=True)
output, (hidden, cell) = net(x[None])
show(output, hidden, cell)

#: convolutions
net = nn.Sequential(nn.Conv1d(3, 2, 2), nn.MaxPool1d(2), nn.Flatten())
show(net(x[None]))

#: an embedding
show(nn.Embedding(5, 3)(torch.tensor([0, 4, 2])))

#: other dtypes
for dtype in (torch.float64, torch.bfloat16, torch.float16):
    show(copy.deepcopy(model).to(dtype)(x.to(dtype)))

#: complex numbers
show(nn.Linear(4, 2, dtype=torch.complex64)(x.to(torch.complex64)))

#: no elements and no dimensions
show(model(torch.ones(0, 4)))
show(nn.ReLU()(torch.tensor(-1.0)))

#: strides
show(model(torch.ones(4, 3).t()))
show(nn.Identity()(torch.ones(1).expand(3, 4)))

#: a tensor with NaN
show(model(x / 0))

#: a call of forward itself
show(model.forward(x))

#: a call by its class
show(type(model).__call__(model, x))

#: a partial function of a module
show(functools.partial(model, x)())

#: a module in a map
show(*map(model, [x, x + 1]))

#: functional_call
show(torch.func.functional_call(model, {name: value * 2 for name, value in model.named_parameters()}, (x,)))

#: names and representations
model(x)
print(model, list(dict(model.named_modules())), model.state_dict().keys())

#: attributes of a module
before = sorted(vars(model))
model(x)
print(sorted(vars(model)) == before)

#: a module with __getattr__
class Dynamic(nn.Module):
    def __getattr__(self, name):
        if name == "made":
            return 3
        return super().__getattr__(name)
    def forward(self, x):
        return x * self.made
show(Dynamic()(x))

#: a module with __slots__ in a base class
class Base:
    __slots__ = ("value",)
class Slotted(Base, nn.Module):
    def forward(self, x):
        return x + 1
show(Slotted()(x))
