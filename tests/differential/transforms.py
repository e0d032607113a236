#: vmap
show(torch.vmap(model)(torch.stack([x, x + 1])))

#: grad of torch.func
show(torch.func.grad(lambda x: model(x).sum())(x))

#: jacrev
show(torch.func.jacrev(model)(x[0]))

#: jvp
show(*torch.func.jvp(model, (x,), (torch.ones_like(x),)))

#: a trace of torch.jit
warnings.simplefilter("ignore")
show(torch.jit.trace(model, x)(x))

#: a script of torch.jit
warnings.simplefilter("ignore")
show(torch.jit.script(model)(x))

#: symbolic_trace
graph = torch.fx.symbolic_trace(model)
print([node.name for node in graph.graph.nodes])
show(graph(x))

#: export
exported = torch.export.export(model, (x,))
print([node.name for node in exported.graph.nodes])
show(exported.module()(x))

#: compile with the eager backend
show(torch.compile(model, backend="eager")(x))

#: a dispatch mode of the program
from torch.utils._python_dispatch import TorchDispatchMode
class Names(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        print(function)
        return function(*args, **(kwargs or {}))
with Names(), torch.no_grad():
    model(x)

#: a function mode of the program
from torch.overrides import TorchFunctionMode
class Names(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        print(getattr(function, "__name__", function))
        return function(*args, **(kwargs or {}))
with Names():
    model(x)

#: a subclass of tensors
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        print(getattr(function, "__name__", function))
        return super().__torch_function__(function, types, args, kwargs)
output = model(x.as_subclass(Named))
print(type(output).__name__)

#: fake tensors
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    output = nn.Linear(4, 2)(torch.ones(3, 4))
    print(tuple(output.shape), type(output).__name__)

#: meta tensors
print(nn.Linear(4, 2, device="meta")(torch.ones(3, 4, device="meta")).shape)

#: the profiler
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    model(x)
print(sorted({event.key for event in profile.key_averages() if event.key.startswith("aten::") and "linear" in event.key}))

#: a profile of Python
import cProfile
profile = cProfile.Profile()
profile.enable()
show(model(x))
profile.disable()

#: settrace
lines = []
def tracer(frame, event, argument):
    if frame.f_code.co_name == "mine":
        lines.append(event)
        return tracer
def mine():
    return model(x)
sys.settrace(tracer)
mine()
sys.settrace(None)
print(lines)

#: setprofile
calls = []
def profiler(frame, event, argument):
    if frame.f_code.co_name == "mine":
        calls.append(event)
def mine():
    return model(x)
sys.setprofile(profiler)
mine()
sys.setprofile(None)
print(calls)

#: the default dtype
torch.set_default_dtype(torch.float64)
show(nn.Linear(2, 2)(torch.ones(1, 2)))
print(torch.get_default_dtype())

#: deterministic algorithms
torch.use_deterministic_algorithms(True)
show(model(x))
print(torch.are_deterministic_algorithms_enabled())

#: the number of threads of PyTorch
model(x)
print(torch.get_num_threads(), torch.get_num_interop_threads() > 0)

#: sparse tensors
show(torch.sparse.mm(torch.eye(3).to_sparse(), x))

#: nested tensors
warnings.simplefilter("ignore")
nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])
print([tuple(part.shape) for part in nn.Linear(4, 2)(nested).unbind()])

#: quantized tensors
warnings.simplefilter("ignore")
quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
show(quantized.int_repr(), nn.Identity()(quantized).dequantize())

#: custom operators
@torch.library.custom_op("differential::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2
show(double(model(x)))

#: parametrised by swapped tensors
other = nn.Linear(4, 8)
torch.utils.swap_tensors(model[0].weight, other.weight)
show(model(x))

#: memory that is shared
tensor = model(x).detach().share_memory_()
show(tensor)
print(tensor.is_shared())

#: numpy
import numpy
array = model(x).detach().numpy()
array += 1
show(torch.from_numpy(array))

#: DLPack
show(torch.from_dlpack(model(x).detach()))
