"""A tiny PDDL interpreter, independent of pddlpy: it can say whether a plan is valid, and nothing else."""

from __future__ import annotations

import itertools
import re
from typing import Any

Atom = tuple[str, ...]


def parse(text: str) -> Any:
    """Parse one s-expression into nested lists."""
    tokens = re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text))
    stack: list[list[Any]] = [[]]
    for token in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    (expression,) = stack[0]
    return expression


def typed(items: list[str]) -> dict[str, str]:
    """Read `a b - t c - u` as {a: t, b: t, c: u}."""
    types, names = {}, []
    rest = iter(items)
    for item in rest:
        if item == "-":
            kind = next(rest)
            types.update(dict.fromkeys(names, kind))
            names = []
        else:
            names.append(item)
    assert not names
    return types


class World:
    """The state of a problem, and the actions that change it."""

    def __init__(self, domain: str, problem: str) -> None:
        sections = {part[0]: part[1:] for part in parse(problem)[1:]}
        parts = parse(domain)[1:]
        self.supertype = typed(next(p for p in parts if p[0] == ":types")[1:])
        self.actions = {p[1]: dict(zip(p[2::2], p[3::2], strict=True)) for p in parts if p[0] == ":action"}
        self.predicates = {
            p[0]: list(typed(p[1:]).values()) for p in next(p for p in parts if p[0] == ":predicates")[1:]
        }
        self.objects = typed(sections[":objects"])
        self.state: set[Atom] = {tuple(atom) for atom in sections[":init"]}
        self.goal = sections[":goal"][0]
        for atom in self.state:
            self._check_types(atom)

    def apply(self, ground_action: str) -> None:
        """Apply "(name arguments…)"; fails if a type or the precondition does not fit."""
        name, *arguments = parse(ground_action)
        action = self.actions[name]
        parameters = typed(action[":parameters"])
        assert len(parameters) == len(arguments), ground_action
        for argument, kind in zip(arguments, parameters.values(), strict=True):
            assert self._is_a(argument, kind), f"{argument} is no {kind} in {ground_action}"
        binding = dict(zip(parameters, arguments, strict=True))
        assert self._holds(action[":precondition"], binding), f"precondition of {ground_action}"
        adds, deletes = set[Atom](), set[Atom]()
        self._collect(action[":effect"], binding, adds, deletes)
        self.state = (self.state - deletes) | adds

    def goal_reached(self) -> bool:
        return self._holds(self.goal, {})

    def _holds(self, formula: Any, binding: dict[str, str]) -> bool:
        head, *rest = formula
        if head == "and":
            return all(self._holds(f, binding) for f in rest)
        if head == "or":
            return any(self._holds(f, binding) for f in rest)
        if head == "not":
            return not self._holds(rest[0], binding)
        if head == "forall":
            return all(self._holds(rest[1], b) for b in self._bindings(rest[0], binding))
        return self._ground(formula, binding) in self.state

    def _collect(self, effect: Any, binding: dict[str, str], adds: set[Atom], deletes: set[Atom]) -> None:
        head, *rest = effect
        if head == "and":
            for part in rest:
                self._collect(part, binding, adds, deletes)
        elif head == "forall":
            for inner in self._bindings(rest[0], binding):
                self._collect(rest[1], inner, adds, deletes)
        elif head == "not":
            deletes.add(self._ground(rest[0], binding))
        else:
            adds.add(self._ground(effect, binding))

    def _bindings(self, variables: list[str], outer: dict[str, str]) -> list[dict[str, str]]:
        kinds = typed(variables)
        choices = [[o for o in self.objects if self._is_a(o, kind)] for kind in kinds.values()]
        return [{**outer, **dict(zip(kinds, chosen, strict=True))} for chosen in itertools.product(*choices)]

    def _ground(self, formula: list[str], binding: dict[str, str]) -> Atom:
        atom = (formula[0], *(binding.get(term, term) for term in formula[1:]))
        self._check_types(atom)
        return atom

    def _check_types(self, atom: Atom) -> None:
        kinds = self.predicates[atom[0]]
        assert len(kinds) == len(atom) - 1, atom
        for term, kind in zip(atom[1:], kinds, strict=True):
            assert self._is_a(term, kind), f"{term} is no {kind} in {atom}"

    def _is_a(self, name: str, kind: str) -> bool:
        current: str | None = self.objects[name]
        while current is not None and current != kind:
            current = self.supertype.get(current)
        return current == kind
