#: an output is freed at once
output = model(x)
reference = weakref.ref(output)
del output
print(reference() is None)

#: what is inside forward is freed at once
freed = []
class Makes(nn.Module):
    def forward(self, x):
        inner = x * 2
        weakref.finalize(inner, freed.append, "freed")
        result = inner + 1
        del inner
        print(freed)
        return result
show(Makes()(x))

#: a model is freed
net = nn.Linear(2, 2)
net(torch.ones(1, 2))
reference = weakref.ref(net)
del net
gc.collect()
print(reference() is None)

#: finalizers of outputs
class Gives(nn.Module):
    def forward(self, x):
        return x + 1
output = Gives()(x)
weakref.finalize(output, print, "finalized")
output = None
print("after")

#: __del__ that runs a model
class Runs:
    def __del__(self):
        show(model(x))
runs = Runs()
del runs
print("after")

#: __del__ that raises
class Raises:
    def __del__(self):
        raise ValueError("in __del__")
sys.unraisablehook = lambda given: print("unraisable", given.exc_value)
raises = Raises()
model(x)
del raises

#: callbacks of the collector
phases = []
gc.callbacks.append(lambda phase, info: phases.append(phase))
model(x)
gc.collect()
gc.callbacks.clear()
print(phases[-2:])

#: the collector is off
gc.disable()
for _ in range(20):
    model(x)
print(gc.isenabled())

#: cycles
class Node:
    pass
for _ in range(10):
    node = Node()
    node.self, node.output = node, model(x)
del node
gc.collect()
print(len([each for each in gc.get_objects() if type(each) is Node]))

#: a generator of outputs that is dropped
def outputs():
    try:
        while True:
            yield model(x)
    finally:
        print("closed")
generator = outputs()
next(generator)
del generator
print("after")

#: a context manager around each call
@contextlib.contextmanager
def around():
    print("in")
    yield
    print("out")
for _ in range(2):
    with around():
        model(x)

#: an exit stack
with contextlib.ExitStack() as stack:
    stack.callback(print, "last")
    stack.callback(lambda: show(model(x)))
    model(x)

#: a cache of outputs
@functools.lru_cache
def cached(number):
    return model(x + number)
show(cached(1), cached(1))
print(cached.cache_info().hits)

#: iterators
show(*itertools.islice((model(x + number) for number in itertools.count()), 3))

#: references to the input
tensor = torch.ones(3, 4)
before = sys.getrefcount(tensor)
model(tensor)
print(sys.getrefcount(tensor) == before)

#: storages that are shared
output = nn.Identity()(x)
print(output is x, output.data_ptr() == x.data_ptr())

#: a view of an output
output = model(x)
view = output[0]
output.data.zero_()
show(view)

#: resized in place
tensor = torch.ones(4)
nn.Identity()(tensor)
tensor.resize_(2)
show(tensor)

#: written in place after the call
output = model(x).detach()
output.mul_(0)
show(output, model(x))

#: ids of objects stay
identities = [id(parameter) for parameter in model.parameters()]
model(x)
print(identities == [id(parameter) for parameter in model.parameters()])

#: standard output in the middle of a forward
class Prints(nn.Module):
    def forward(self, x):
        print("forward")
        return x
nn.Sequential(Prints(), model, Prints())(x)

#: standard output is something else
class Writer(io.StringIO):
    pass
writer = Writer()
with contextlib.redirect_stdout(writer):
    show(model(x))
print(len(writer.getvalue()))

#: modules that are imported
model(x)
print("json" in sys.modules, sys.getrecursionlimit(), sys.getswitchinterval())

#: a thread of a model that outlives its with block
results = []
thread = threading.Thread(target=lambda: results.append(model(x)))
with contextlib.nullcontext():
    thread.start()
thread.join()
show(*results)
