"""Backends and decompositions with a mistake each, to be found."""

import torch


def _replaced(module, wrong, which=0):
    """Has the graph compute something else in the place of one node."""
    found = [node for node in module.graph.nodes if node.op.startswith("call_") and wrong(node) is not None]
    if len(found) > which:
        node = found[which]
        with module.graph.inserting_after(node):
            other = module.graph.call_function(wrong(node), node.args[:1])
        node.replace_all_uses_with(other)
        module.graph.erase_node(node)
    module.recompile()
    return module.forward


def _name(node):
    return getattr(node.target, "__name__", str(node.target)).partition(".")[0]


def _wrong_activation(node):
    return {"gelu": torch.nn.functional.silu, "silu": torch.nn.functional.gelu}.get(_name(node))


def first_activation(module, inputs):
    """Takes gelu for silu, and silu for gelu, the first time."""
    return _replaced(module, _wrong_activation)


def second_activation(module, inputs):
    """The same, the second time only: a graph with one activation is right."""
    return _replaced(module, _wrong_activation, 1)


def cos_for_sin_before_relu(module, inputs):
    """A wrong fusion: sin is cos if its only use is relu, and is right where its value is asked for."""

    def wrong(node):
        alone = _name(node) == "sin" and [_name(user) for user in node.users] == ["relu"]
        return torch.cos if alone else None

    return _replaced(module, wrong)


def nothing_twice(module, inputs):
    """Leaves out an addition in place to an input."""
    for node in list(module.graph.nodes):
        if _name(node) in ("add_", "iadd"):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()
    return module.forward


def one_too_many_after_cond(module, inputs):
    """Adds one to all outputs of a graph that has a branch."""
    wrong = any(node.target is torch.ops.higher_order.cond for node in module.graph.nodes)
    return (lambda *given: [value + 1 for value in module(*given)]) if wrong else module.forward


def wrong_for_any_size(module, inputs):
    """Is wrong where a size is a symbol."""
    wrong = any(isinstance(value, torch.SymInt) for value in inputs)
    return (lambda *given: [value + 1 for value in module(*given)]) if wrong else module.forward


def never(module, inputs):
    raise RuntimeError("this backend cannot compile anything")


def fails_when_run(module, inputs):
    def run(*given):
        for tensor in given:
            if (tensor == 1).all():  # what the graph writes to, in the test
                tensor.zero_()
        raise RuntimeError("this graph cannot run")

    return run


def sine(x):
    """A wrong decomposition of the cosine."""
    return torch.sin(x)


def rough_gelu(x, approximate="none"):
    """A wrong decomposition of gelu."""
    return x * torch.sigmoid(1.6 * x)


def with_wrong_cosine(module, inputs):
    """A backend with a decomposition table of its own."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    def compiler(lowered, _):
        return make_boxed_func(lowered.forward)

    return aot_autograd(fw_compiler=compiler, decompositions={torch.ops.aten.cos.default: sine})(module, inputs)


def double_layer_norm_backward(module, inputs):
    """Twice the gradients of every layer norm; those that are not asked for are None."""

    class Doubled(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            if target is not torch.ops.aten.native_layer_norm_backward.default:
                return result
            return tuple(one * 2 if isinstance(one, torch.Tensor) else one for one in result)

    return Doubled(module).run
