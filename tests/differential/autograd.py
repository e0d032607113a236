#: a step of training
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
show(*model.parameters())

#: Adam
optimizer = torch.optim.Adam(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
show(*model.parameters())

#: gradients that add up
for _ in range(3):
    model(x).sum().backward()
show(*[parameter.grad for parameter in model.parameters()])

#: a graph that is kept
output = model(x).sum()
output.backward(retain_graph=True)
output.backward()
show(model[0].weight.grad)

#: a graph that is gone
output = model(x).sum()
output.backward()
try:
    output.backward()
except RuntimeError as error:
    print("second time" in str(error))

#: torch.autograd.grad
show(*torch.autograd.grad(model(x).sum(), list(model.parameters())))

#: a gradient of a gradient
first = torch.autograd.grad(model(x).square().sum(), model[0].weight, create_graph=True)[0]
show(*torch.autograd.grad(first.square().sum(), model[0].weight))

#: hooks on gradients
output = model(x)
output.register_hook(lambda gradient: gradient * 2)
output.sum().backward()
show(model[0].weight.grad)

#: hooks on modules in the backward
model[0].register_full_backward_hook(lambda module, given, taken: show(*[each for each in taken if each is not None]))
model(x).sum().backward()

#: hooks when a gradient was accumulated
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(lambda parameter: show(parameter.grad))
model(x).sum().backward()

#: a function of its own
class Double(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(context, gradient):
        return gradient * context.saved_tensors[0]
Double.apply(model(x)).sum().backward()
show(model[0].weight.grad)

#: checkpointing
from torch.utils.checkpoint import checkpoint
checkpoint(model, x.requires_grad_(), use_reentrant=False).sum().backward()
show(x.grad, model[0].weight.grad)

#: checkpointing that enters again
from torch.utils.checkpoint import checkpoint
checkpoint(model, x.requires_grad_(), use_reentrant=True).sum().backward()
show(x.grad, model[0].weight.grad)

#: saved tensors that are packed
packed = []
with torch.autograd.graph.saved_tensors_hooks(lambda tensor: packed.append(tensor.shape) or tensor, lambda tensor: tensor):
    model(x).sum().backward()
print(packed)

#: no_grad
with torch.no_grad():
    print(model(x).requires_grad)

#: inference_mode
with torch.inference_mode():
    output = model(x)
print(output.is_inference(), output.requires_grad)

#: autocast
with torch.autocast("cpu", torch.bfloat16):
    show(model(x))

#: the sequence of nodes
output = model(x)
names, node = [], output.grad_fn
while node is not None:
    names.append(node.name())
    node = node.next_functions[0][0] if node.next_functions else None
print(names)

#: versions of tensors
tensor = torch.ones(3)
output = nn.ReLU(inplace=True)(tensor)
print(tensor._version, output is tensor)

#: an in-place change that breaks the backward
weight = torch.ones(3, requires_grad=True)
product = weight * 2
square = product * product
product.add_(1)
try:
    square.sum().backward()
except RuntimeError as error:
    print("modified by an inplace operation" in str(error))

#: gradients of inputs
x.requires_grad_()
model(x).sum().backward()
show(x.grad)

#: leaves and their accumulators
model(x).sum().backward()
print([parameter.is_leaf for parameter in model.parameters()], model(x).is_leaf)

#: a tensor that is detached in the middle
class Detaches(nn.Module):
    def forward(self, x):
        return x.detach() + x
output = nn.Sequential(model[0], Detaches())(x)
output.sum().backward()
show(model[0].weight.grad)

#: random numbers
dropout = nn.Dropout(0.5)
show(dropout(torch.ones(8)))
show(dropout(torch.ones(8)))
show(torch.rand(2))

#: a generator of random numbers
generator = torch.Generator().manual_seed(3)
model(x)
show(torch.rand(3, generator=generator), generator.get_state()[:16])

#: the state of random numbers
state = torch.get_rng_state()
model(x)
print(torch.equal(state, torch.get_rng_state()))

#: gradients are clipped
model(x).sum().backward()
print(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
show(model[0].weight.grad)

#: a schedule
optimizer = torch.optim.SGD(model.parameters(), 0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
for _ in range(3):
    model(x).sum().backward()
    optimizer.step()
    schedule.step()
print(schedule.get_last_lr())

#: a loss with a module inside
loss = nn.CrossEntropyLoss()
loss(model(x), torch.tensor([0, 1, 0])).backward()
show(model[2].bias.grad)
