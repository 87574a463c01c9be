"""Lists, tuples, dicts, sets, slices and ranges of the traced program are those of Python."""

import collections

import torch
from eager import check

x = torch.randn(3, 4)
Pair = collections.namedtuple("Pair", "left right")


def test_list_methods_change_the_list_in_place():
    def fn(x):
        items = [x, x + 1]
        other = items
        items.append(x * 2)
        items.insert(0, 5)
        items.extend((x, 3))
        last = other.pop()
        items.reverse()
        return other, last, len(items)

    check(fn, x)


def test_an_argument_list_is_changed_after_the_graph():
    def fn(items, x):
        items.append(x + 1)
        items[0] = x * 2
        del items[1]
        return items[0] + items[-1]

    check(fn, [x, x, x], x)


def test_an_argument_dict_is_changed_after_the_graph():
    def fn(table, x):
        table["new"] = x + table["a"]
        table.pop("b")
        table["a"] = 7
        return table["new"].sum()

    check(fn, {"a": x, "b": 2}, x)


def test_dicts_keep_their_order_and_kind():
    def fn(x):
        ordered = collections.OrderedDict(a=x, b=x + 1)
        ordered.move_to_end("a")
        plain = {k: v * 2 for k, v in ordered.items()}
        plain.update(c=x)
        return ordered, plain, list(plain.keys()), plain.get("z", 3), "a" in plain

    check(fn, x)


def test_default_dicts_make_what_is_missing():
    def fn(x):
        table = collections.defaultdict(list)
        table["a"].append(x)
        table["a"].append(x + 1)
        return table

    check(fn, x)


def test_named_tuples():
    def fn(pair, x):
        made = Pair(pair.left + x, right=pair.right)
        left, right = made
        return made, left + right, made._replace(left=x)

    check(fn, Pair(x, x * 2), x)


def test_slices_and_ranges():
    def fn(x):
        items = [x + i for i in range(1, 10, 2)]
        return items[1:3], items[::-1], x[1:, ::2], x[..., None], list(range(5)[1:3]), x[-1]

    check(fn, x)


def test_unpacking_and_star_unpacking():
    def fn(pairs):
        (a, b), *rest = pairs
        first, *middle, last = [a, b, *rest[0]]
        return first + last, middle

    check(fn, [(x, x + 1), (x + 2, x + 3)])


def test_sets():
    def fn(x):
        names = {"a", "b"} | {"c"}
        names.discard("b")
        return x + len(names), sorted(names), "c" in names

    check(fn, x)


def test_sorting_with_a_key():
    def fn(x):
        items = [(2, x), (1, x + 1), (3, x * 2)]
        items.sort(key=lambda pair: -pair[0])
        return [v for _, v in items], sorted([3, 1, 2])

    check(fn, x)


def test_aliases_stay_aliases():
    def fn(x):
        inner = [x + 1]
        outer = [inner, inner]
        inner.append(x)
        return outer

    captured = check(fn, x)
    out = captured(x)
    assert out[0] is out[1]


def test_extend_reads_a_generator_lazily():
    def fn(x):
        got = [x]
        got.extend(got[-1] + 1 for _ in range(3))
        return got

    check(fn, x)


def test_errors_of_containers_are_caught_in_the_trace():
    def fn(x):
        caught = []
        for action in (lambda: [][0], lambda: {}["k"], lambda: (1, 2)[5], lambda: [].pop()):
            try:
                action()
            except (IndexError, KeyError) as error:
                caught.append((type(error).__name__, str(error)))
        return x + 1, caught

    check(fn, x)


def test_sets_and_views_of_dicts_make_sets():
    def fn(x):
        keys, some, same_one = {"a": 1, "b": 2}.keys(), frozenset("bc"), {"b"}
        other = same_one
        other |= keys
        kinds = [type(some & keys), type(keys & some), type(some | keys), type(keys - some), type(some ^ some)]
        return x + 1, kinds, sorted(some & keys), sorted(other), same_one is other, sorted(same_one)

    check(fn, x)


def test_a_comparison_asked_by_its_name_answers_as_the_type_does():
    def fn(x):
        return x + 1, complex.__eq__(1j, 2.0), int.__eq__(1, 1.0), (1.5).__lt__(2), complex.__lt__(1j, 2j), str.__eq__("a", 1)

    check(fn, x)
