"""The config of tap.quant.record(): what it selects, when, and what is said of one that cannot be meant."""

import copy
import sys

import pytest
from tensortap.quant.dump.config import TENSORS, dump_config
from tensortap.quant.dump.config_entry import ConfigError
from tensortap.quant.dump.layers import number_of

YAML = """
fc_layers:
  enabled: True
  layers:
    layer_name_regex_pattern: .*(fc1|self_attention).*
  transformer_engine:
    DumpTensors:
      enabled: True
      tensors_struct:
        - tensor: activation
          high_precision_tensor: True
          quantized_tensor: True
          dump_quantized_internals: True
          freq: 100
        - tensor: weight
          high_precision_tensor: True
          quantized_tensor: False
          freq: 500
"""


def feature(**settings):
    """A config of one section with these settings of DumpTensors."""
    return {
        "one": {
            "enabled": True,
            "layers": {"layer_types": "all"},
            "transformer_engine": {"DumpTensors": {"enabled": True, "tensors": ["weight"], **settings}},
        }
    }


def plan(**settings):
    (section,) = dump_config(feature(**settings)).sections
    return section.plans["weight"]


def layers(**settings):
    config = feature()
    config["one"]["layers"] = settings
    (section,) = dump_config(config).sections
    return section.layers


def steps(upto=30, **settings):
    schedule = plan(**settings).schedule
    return [step for step in range(upto) if schedule.includes(step)]


# ---- what it says ----


def test_the_yaml_of_dump_tensors_is_read_as_it_stands():
    (section,) = dump_config(YAML).sections
    assert section.name == "fc_layers"
    assert section.layers.selects("decoder.0.self_attention.proj", "Linear")
    assert not section.layers.selects("decoder.0.fc2", "Linear")
    activation, weight = section.plans["activation"], section.plans["weight"]
    assert (activation.high_precision, activation.quantized, activation.internals) == (True, True, True)
    assert (weight.high_precision, weight.quantized, weight.internals) == (True, False, False)
    assert (activation.schedule.freq, weight.schedule.freq) == (100, 500)


def test_a_file_text_and_a_dict_say_the_same(tmp_path):
    path = tmp_path / "dump.yaml"
    path.write_text(YAML)
    as_dict = dump_config(YAML).given
    for given in (path, str(path), as_dict):
        assert dump_config(given).sections == dump_config(YAML).sections


def test_json_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    text = '{"one": {"layers": {"layer_types": "all"}, "DumpTensors": {"tensors": "weight"}}}'
    assert list(dump_config(text).sections[0].plans) == ["weight"]
    with pytest.raises(ModuleNotFoundError, match="PyYAML is needed: `pip install pyyaml`, or pass a dict"):
        dump_config(YAML)


def test_what_is_not_enabled_is_left_out():
    config = feature()
    config["two"] = {"enabled": False, "whatever": 3}
    config["three"] = copy.deepcopy(config["one"])
    config["three"]["transformer_engine"]["DumpTensors"]["enabled"] = False
    assert [section.name for section in dump_config(config).sections] == ["one"]


def test_the_feature_may_stand_without_a_namespace():
    config = {"one": {"layers": {"layer_types": ["fc"]}, "DumpTensors": {"tensors": ["all"]}}}
    (section,) = dump_config(config).sections
    assert tuple(section.plans) == TENSORS


def test_other_features_of_transformer_engine_are_left_aside_and_told():
    config = feature()
    config["one"]["transformer_engine"]["LogFp8TensorStats"] = {"enabled": True, "stats": ["mse"]}
    assert dump_config(config).notes == (
        "one.transformer_engine.LogFp8TensorStats is left aside: of TransformerEngine's features only DumpTensors is "
        "known",
    )


def test_both_sides_are_kept_when_none_is_named():
    assert (plan().high_precision, plan().quantized) == (True, True)
    assert (plan(quantized_tensor=True).high_precision, plan(quantized_tensor=True).quantized) == (False, True)
    only = plan(high_precision_tensor=True)
    assert (only.high_precision, only.quantized) == (True, False)
    assert plan(high_precision_tensor=False, quantized_tensor=True).high_precision is False
    assert plan(quantized_tensor=False, high_precision_tensor=True).quantized is False


def test_a_recipe_is_a_format():
    assert plan(recipe="nvfp4").recipe == "nvfp4"
    assert plan(recipe="fp8").recipe == "fp8_e4m3"
    assert plan().recipe is None


def test_what_stands_above_holds_where_a_tensor_says_nothing():
    settings = {"freq": 5, "recipe": "mxfp8", "tensors_struct": [{"tensor": "weight"}, {"tensor": "dgrad", "freq": 2}]}
    config = feature(**settings)
    del config["one"]["transformer_engine"]["DumpTensors"]["tensors"]
    plans = dump_config(config).sections[0].plans
    assert [(name, each.schedule.freq, each.recipe) for name, each in plans.items()] == [
        ("weight", 5, "mxfp8_e4m3"),
        ("dgrad", 2, "mxfp8_e4m3"),
    ]


# ---- when ----


def test_every_step_unless_told_otherwise():
    assert steps(4) == [0, 1, 2, 3]


def test_intervals_include_both_ends():
    assert steps(start_step=3, end_step=5) == [3, 4, 5]


def test_freq_counts_from_the_first_step():
    assert steps(freq=4, start_step=3) == [3, 7, 11, 15, 19, 23, 27]
    assert steps(freq=4, start_step=3, end_step=11) == [3, 7, 11]


@pytest.mark.parametrize("no_end", [-1, None])
def test_no_end_is_no_end(no_end):
    assert steps(freq=10, end_step=no_end) == [0, 10, 20]


def test_a_list_of_intervals():
    assert steps(start_end_list=[[0, 2], [10, 12]]) == [0, 1, 2, 10, 11, 12]
    assert steps(start_end_list=[[21, -1], [1, 5]], freq=2) == [1, 3, 5, 21, 23, 25, 27, 29]


def test_a_list_of_intervals_outweighs_start_and_end():
    config = feature(start_end_list=[[4, 5]], start_step=0, end_step=9)
    assert dump_config(config).notes == (
        "one.transformer_engine.DumpTensors.start_step is left aside: start_end_list is there",
        "one.transformer_engine.DumpTensors.end_step is left aside: start_end_list is there",
    )
    assert steps(start_end_list=[[4, 5]], start_step=0, end_step=9) == [4, 5]


# ---- which layers ----


def test_layers_by_pattern_type_number_and_name():
    by_pattern = layers(layer_name_regex_pattern="fc[12]$")
    assert by_pattern.selects("a.fc1", "Linear") and not by_pattern.selects("a.fc3", "Linear")
    by_type = layers(layer_types=["fc1", "Bilinear"])
    assert by_type.selects("a.fc1.inner", "Linear") and by_type.selects("x", "Bilinear")
    assert not by_type.selects("x", "BilinearLike")
    by_number = layers(layer_numbers=[1, "3-5"])
    assert [n for n in range(8) if by_number.selects(f"blocks.{n}.fc1", "Linear")] == [1, 3, 4, 5]
    assert not by_number.selects("head", "Linear")
    by_name = layers(exact_layer_names=["head"])
    assert by_name.selects("head", "Linear") and not by_name.selects("head.0", "Linear")


@pytest.mark.parametrize("numbers", [2, "2", [2], "2-2"])
def test_one_number(numbers):
    chosen = layers(layer_numbers=numbers)
    assert [n for n in range(4) if chosen.selects(f"blocks.{n}.fc1", "Linear")] == [2]


def test_all_numbers_and_all_types():
    assert layers(layer_numbers="all").selects("blocks.7.fc1", "Linear")
    assert not layers(layer_numbers="all").selects("head", "Linear")
    assert layers(layer_types=["all"]).selects("head", "Linear")


def test_all_that_is_given_must_hold():
    chosen = layers(layer_types=["fc1"], layer_numbers=[2], layer_name_regex_pattern="^decoder")
    assert chosen.selects("decoder.2.fc1", "Linear")
    for name in ("encoder.2.fc1", "decoder.1.fc1", "decoder.2.fc2"):
        assert not chosen.selects(name, "Linear")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("encoder.layer.3.fc1", 3),
        ("blocks.12.experts.7.fc2", 12),
        ("layer_3.fc1", 3),
        ("fc12", None),
        ("head", None),
        ("layers10.proj", 10),
    ],
)
def test_the_number_of_a_layer(name, number):
    assert number_of(name) == number


# ---- what cannot be meant ----

FEATURE = "one.transformer_engine.DumpTensors"
STRUCT = f"{FEATURE}.tensors_struct"
NAMES = "activation, weight, gradient, output, wgrad, dgrad"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"freqs": 3}, f"{FEATURE} has no 'freqs': it is one of enabled, tensors, tensors_struct, "
         "high_precision_tensor, quantized_tensor, dump_quantized_internals, recipe, freq, start_step, end_step, "
         "start_end_list"),
        ({"enabled": "yes"}, f"{FEATURE}.enabled is 'yes': it must be True or False"),
        ({"quantized_tensor": 1}, f"{FEATURE}.quantized_tensor is 1: it must be True or False"),
        ({"tensors": ["weights"]}, f"{FEATURE}.tensors[0] is 'weights': it is one of {NAMES}"),
        ({"tensors": "x"}, f"{FEATURE}.tensors is 'x': it is one of {NAMES}"),
        ({"tensors": []}, f"{FEATURE}.tensors is []: it must be a list of tensors: {NAMES}"),
        ({"tensors": {"weight": 1}}, f"{FEATURE}.tensors is {{'weight': 1}}: it must be a list of tensors: {NAMES}"),
        ({"tensors_struct": []}, f"{FEATURE} must have one of tensors, tensors_struct; tensors are {NAMES}"),
        ({"freq": 0}, f"{FEATURE}.freq is 0: it must be a number of steps, at least 1"),
        ({"freq": 1.5}, f"{FEATURE}.freq is 1.5: it must be a number of steps, at least 1"),
        ({"freq": True}, f"{FEATURE}.freq is True: it must be a number of steps, at least 1"),
        ({"start_step": -1}, f"{FEATURE}.start_step is -1: it must be a step, counted from 0"),
        ({"end_step": "end"}, f"{FEATURE}.end_step is 'end': it must be the last step, counted from 0; -1 or nothing "
         "for no end"),
        ({"start_step": 5, "end_step": 4}, f"{FEATURE}.end_step is 4: it must not be before the first step, 5"),
        ({"start_end_list": [3, 4]}, f"{FEATURE}.start_end_list[0] is 3: it must be a list of two steps, "
         "[first, last]"),
        ({"start_end_list": 3}, f"{FEATURE}.start_end_list is 3: it must be a list of intervals [first, last]"),
        ({"start_end_list": [[3]]}, f"{FEATURE}.start_end_list[0] is [3]: it must be a list of two steps, "
         "[first, last]"),
        ({"start_end_list": [[1, 2], [5, 4]]}, f"{FEATURE}.start_end_list[1][1] is 4: it must not be before the first "
         "step, 5"),
        ({"start_end_list": [["a", 2]]}, f"{FEATURE}.start_end_list[0][0] is 'a': it must be a step, counted from 0"),
        ({"start_end_list": [[0, 5], [5, 9]]}, f"{FEATURE}.start_end_list: the interval from step 5 begins before the "
         "one before it ends"),
        ({"start_end_list": [[0, -1], [5, 9]]}, f"{FEATURE}.start_end_list: the interval from step 5 begins before "
         "the one before it ends"),
        ({"high_precision_tensor": False}, f"{FEATURE} keeps nothing of weight: set high_precision_tensor or "
         "quantized_tensor to True"),
        ({"high_precision_tensor": True, "dump_quantized_internals": True}, f"{FEATURE} has dump_quantized_internals, "
         "which needs quantized_tensor: True"),
        ({"recipe": "nvfp5"}, f"{FEATURE}.recipe is 'nvfp5': no quantized format is called 'nvfp5'; there are "),
        ({"recipe": 4}, f"{FEATURE}.recipe is 4: it must be the name of a format"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(ConfigError) as error:
        dump_config(feature(**settings))
    assert str(error.value).startswith(message)
    assert str(error.value) == message or "there are" in message


@pytest.mark.parametrize(
    ("struct", "message"),
    [
        ({"tensor": "weight"}, f"{STRUCT} is {{'tensor': 'weight'}}: it must be a list of mappings, each with a member "
         "`tensor`"),
        ([{"freq": 3}], f"{STRUCT}[0] has no `tensor`: it is one of {NAMES}"),
        ([{"tensor": "x"}], f"{STRUCT}[0].tensor is 'x': it is one of {NAMES}"),
        ([{"tensor": "weight"}, {"tensor": "weight"}], f"{STRUCT}[1].tensor is 'weight': it is there already; what "
         "differs in time goes into start_end_list"),
        ([{"tensor": "weight", "tensors": []}], f"{STRUCT}[0] has no 'tensors': it is one of tensor, "
         "high_precision_tensor, quantized_tensor, dump_quantized_internals, recipe, freq, start_step, end_step, "
         "start_end_list"),
        (["weight"], f"{STRUCT}[0] is 'weight': it must be a mapping of tensor, high_precision_tensor, "
         "quantized_tensor, dump_quantized_internals, recipe, freq, start_step, end_step, start_end_list"),
        ([{"tensor": "weight", "freq": -1}], f"{STRUCT}[0].freq is -1: it must be a number of steps, at least 1"),
    ],
)  # fmt: skip
def test_structs_that_cannot_be_meant(struct, message):
    config = feature()
    config["one"]["transformer_engine"]["DumpTensors"] = {"tensors_struct": struct}
    with pytest.raises(ConfigError) as error:
        dump_config(config)
    assert str(error.value) == message


LAYERS = "layer_name_regex_pattern, layer_types, layer_numbers, exact_layer_names"
NUMBERS = 'a number, a list of numbers and ranges like "3-5", or "all"'


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({}, f"one.layers says nothing: give one of {LAYERS}"),
        (None, f"one.layers is None: it must be a mapping of {LAYERS}"),
        ({"layer_name": "x"}, f"one.layers has no 'layer_name': it is one of {LAYERS}"),
        ({"layer_name_regex_pattern": "("}, "one.layers.layer_name_regex_pattern is '(': it is no regular expression: "
         "missing ), unterminated subpattern at position 0"),
        ({"layer_name_regex_pattern": 3}, "one.layers.layer_name_regex_pattern is 3: it must be a regular expression"),
        ({"layer_types": [3]}, "one.layers.layer_types[0] is 3: it must be text"),
        ({"layer_types": []}, "one.layers.layer_types is []: it must be a list of parts of layer names, or names of "
         "classes"),
        ({"exact_layer_names": 3}, "one.layers.exact_layer_names is 3: it must be a list of names of layers"),
        ({"layer_numbers": "3-"}, f"one.layers.layer_numbers is '3-': it must be {NUMBERS}"),
        ({"layer_numbers": ["5-3"]}, f"one.layers.layer_numbers[0] is '5-3': it must be {NUMBERS}"),
        ({"layer_numbers": [-1]}, f"one.layers.layer_numbers[0] is -1: it must be {NUMBERS}"),
        ({"layer_numbers": []}, f"one.layers.layer_numbers is []: it must be a list of {NUMBERS}"),
    ],
)  # fmt: skip
def test_layers_that_cannot_be_meant(chosen, message):
    config = feature()
    config["one"]["layers"] = chosen
    with pytest.raises(ConfigError) as error:
        dump_config(config)
    assert str(error.value) == message


def without(name):
    config = feature()
    del config["one"][name]
    return config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "the config dumps nothing: it has no section that is enabled and has DumpTensors enabled"),
        (without("transformer_engine"), "the config dumps nothing: "),
        (without("layers"), "one has no `layers`: which ones are meant?"),
        ({"one": 3}, "one is 3: it must be a mapping"),
        ({3: {}}, "the config has the name 3: names are text"),
        ({"one": {"enabled": 1}}, "one.enabled is 1: it must be True or False"),
        ({"one": {"transformer_engine": 3}}, "one.transformer_engine is 3: it must be a mapping"),
        ({"one": {"transformer_engine": {"DumpTensor": {}}}}, "one has no 'DumpTensor': it is one of enabled, layers, "
         "transformer_engine, DumpTensors"),
        ({"one": {"freq": 3}}, "one has no 'freq': it is one of enabled, layers, transformer_engine, DumpTensors"),
        ({"one": {"layers": {"layer_types": "x"}, "DumpTensors": None}}, "one.DumpTensors is None: it must be a "
         "mapping of enabled, tensors, "),
        ("- one\n- two\n", "the config holds ['one', 'two']: it must be a mapping of sections"),
        ("one: [\n", "the config is not YAML: "),
        ("one:\n  layers: {}\n  layers: {}\n", "the config, line 3: 'layers' is there twice"),
        ("one: {enabled: False}\none: {}\n", "the config, line 2: 'one' is there twice"),
    ],
)  # fmt: skip
def test_configs_that_cannot_be_meant(config, message):
    with pytest.raises(ConfigError) as error:
        dump_config(config)
    assert str(error.value).startswith(message)
    assert str(error.value) == message or message.endswith(" ")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no config .*nowhere.yaml: give a YAML file"):
        dump_config(tmp_path / "nowhere.yaml")
    with pytest.raises(FileNotFoundError):
        dump_config("nowhere.yaml")


def test_what_is_no_config_at_all():
    with pytest.raises(TypeError, match="the config is a int: it is a dict, YAML, or the path of a YAML file"):
        dump_config(3)
