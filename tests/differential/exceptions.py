#: raised in forward
class Bad(nn.Module):
    def forward(self, x):
        raise ValueError("bad")
try:
    nn.Sequential(model, Bad())(x)
except ValueError as error:
    print(error, error.__context__, error.__cause__)
show(model(x))

#: raised and caught in forward
class Catches(nn.Module):
    def forward(self, x):
        try:
            Bad()(x)
        except ValueError as error:
            return x + len(str(error))
class Bad(nn.Module):
    def forward(self, x):
        raise ValueError("bad")
show(Catches()(x))

#: raised from another
class Bad(nn.Module):
    def forward(self, x):
        try:
            {}["missing"]
        except KeyError as error:
            raise RuntimeError("from") from error
try:
    Bad()(x)
except RuntimeError as error:
    print(repr(error.__cause__))

#: a model is called while an exception is handled
try:
    1 / 0
except ZeroDivisionError:
    show(model(x))
    print(sys.exc_info()[0].__name__)
print(sys.exc_info()[0])

#: the traceback of an error in forward
import traceback
class Bad(nn.Module):
    def forward(self, x):
        raise ValueError("bad")
try:
    nn.Sequential(Bad())(x)
except ValueError as error:
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    print([name for name in names if name == "forward"])

#: KeyboardInterrupt in forward
class Interrupted(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt
for _ in range(3):
    try:
        nn.Sequential(model, Interrupted())(x)
    except KeyboardInterrupt:
        print("interrupted")
show(model(x))

#: SystemExit in forward
class Exits(nn.Module):
    def forward(self, x):
        sys.exit(21)
Exits()(x)

#: StopIteration in forward
class Stops(nn.Module):
    def forward(self, x):
        return next(iter([]))
try:
    Stops()(x)
except StopIteration:
    print("stopped")

#: GeneratorExit through a forward
def outputs():
    try:
        while True:
            yield model(x)
    finally:
        show(model(x * 2))
generator = outputs()
show(next(generator))
generator.close()

#: thrown into a generator
def outputs():
    while True:
        try:
            yield model(x)
        except KeyError as error:
            print("caught", error)
generator = outputs()
next(generator)
show(generator.throw(KeyError("thrown")))

#: a group of exceptions
class Bad(nn.Module):
    def forward(self, x):
        raise ExceptionGroup("several", [ValueError("one"), TypeError("two")])
try:
    Bad()(x)
except* ValueError as group:
    print(group.exceptions)
except* TypeError as group:
    print(group.exceptions)

#: recursion without end
class Recurses(nn.Module):
    def forward(self, x):
        return self(x)
try:
    Recurses()(x)
except RecursionError:
    print("too deep")
show(model(x))

#: a wrong shape
try:
    model(torch.ones(3, 5))
except RuntimeError as error:
    print(str(error).splitlines()[0])

#: a wrong argument
try:
    model(x, nothing=1)
except TypeError as error:
    print("nothing" in str(error))

#: an assertion
class Asserts(nn.Module):
    def forward(self, x):
        assert x.sum() < 0, "positive"
        return x
try:
    Asserts()(x)
except AssertionError as error:
    print(error)

#: warnings as errors
warnings.simplefilter("error")
class Warns(nn.Module):
    def forward(self, x):
        warnings.warn("careful", stacklevel=1)
        return x
try:
    Warns()(x)
except UserWarning as error:
    print(error)
show(model(x))

#: warnings are told once
class Warns(nn.Module):
    def forward(self, x):
        warnings.warn("careful", stacklevel=1)
        return x
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    Warns()(x)
    Warns()(x)
print([str(warning.message) for warning in caught])

#: an error in backward
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 1
    @staticmethod
    def backward(context, gradient):
        raise RuntimeError("in backward")
try:
    Bad.apply(model(x)).sum().backward()
except RuntimeError as error:
    print(error)
show(model(x))

#: an error in a hook of the program
def hook(module, args, output):
    raise OSError("hook")
handle = model.register_forward_hook(hook)
try:
    model(x)
except OSError as error:
    print(error)
handle.remove()
show(model(x))

#: an error in a hook on a gradient
output = model(x)
def hook(gradient):
    raise LookupError("gradient")
output.register_hook(hook)
try:
    output.sum().backward()
except LookupError as error:
    print(error)

#: an output that cannot be looked into
class Closed:
    def __getattr__(self, name):
        raise RuntimeError(name)
class Gives(nn.Module):
    def forward(self, x):
        return {"tensor": x, "closed": Closed()}
show(Gives()(x)["tensor"])

#: a mapping that raises
import collections.abc
class Raises(collections.abc.Mapping):
    def __getitem__(self, key):
        raise MemoryError
    def __iter__(self):
        raise ArithmeticError
    def __len__(self):
        raise BufferError
class Gives(nn.Module):
    def forward(self, x):
        return Raises()
print(type(Gives()(x)).__name__)

#: an output that counts how often it is looked at
class Counts(list):
    looked = 0
    def __len__(self):
        Counts.looked += 1
        return super().__len__()
class Gives(nn.Module):
    def forward(self, x):
        return [x, x + 1]
show(*Gives()(x))

#: anomaly mode
with torch.autograd.set_detect_anomaly(True):
    try:
        torch.sqrt(model(x) * 0 - 1).sum().backward()
    except RuntimeError as error:
        print("nan" in str(error))

#: a context manager that swallows
with contextlib.suppress(ZeroDivisionError):
    model(x)
    1 / 0
show(model(x))
