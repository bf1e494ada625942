"""Texts of a grammar without any grammar library: a sampler and an Earley recogniser over characters."""

from infernix_constraints import grammar as ir


class Texts:
    """Plain productions of a grammar: lists of options, each a tuple of rule numbers and character ranges."""

    def __init__(self, grammar):
        self.options = []
        self.names = {name: self._new() for name in grammar.rules}
        for name, body in grammar.rules.items():
            self.options[self.names[name]] = [(self._symbol(body),)]
        self.root = self.names[grammar.root]
        self._measure()

    def _new(self, *options):
        self.options.append([tuple(option) for option in options])
        return len(self.options) - 1

    def _symbol(self, node):
        match node:
            case ir.Text(text=text):
                return self._new([((ord(each), ord(each)),) for each in text])
            case ir.CharacterClass(ranges=ranges):
                return tuple(ranges)
            case ir.Reference(name=name):
                return self.names[name]
            case ir.Sequence(parts=parts):
                return self._new([self._symbol(part) for part in parts])
            case ir.Alternatives(options=options):
                return self._new(*([self._symbol(option)] for option in options))
            case ir.Repetition(part=part, minimum=minimum, maximum=maximum):
                unit = self._symbol(part)
                if maximum is None:
                    tail = self._new()
                    self.options[tail] = [(), (unit, tail)]
                else:
                    tail = self._new(())
                    for _ in range(maximum - minimum):
                        tail = self._new((), (unit, tail))
                return self._new([unit] * minimum + [tail])
        raise AssertionError(node)

    def _measure(self):
        """The least number of characters of each rule, and whether it may be empty."""
        self.least = [float("inf")] * len(self.options)
        changed = True
        while changed:
            changed = False
            for rule in reversed(range(len(self.options))):
                least = min(map(self._cost, self.options[rule]), default=float("inf"))
                if least < self.least[rule]:
                    self.least[rule], changed = least, True

    def _cost(self, option):
        return sum(self.least[each] if isinstance(each, int) else 1 for each in option)

    def sample(self, random, budget=60):
        """A random text; past the budget every choice is the shortest."""
        pending, text, steps = [self.root], [], 0
        while pending:
            symbol = pending.pop()
            if isinstance(symbol, tuple):
                low, high = random.choice(symbol)
                if random.random() < 0.7:
                    high = min(high, max(low, 0x7E))
                text.append(chr(random.randint(low, high)))
                continue
            options = [each for each in self.options[symbol] if self._cost(each) < float("inf")]
            steps += len(options) > 1
            if steps > budget:
                options = [min(options, key=self._cost)]
            pending += reversed(random.choice(options))
        return "".join(text)

    def accepts(self, text):
        """Whether the text belongs to the language (Earley's algorithm)."""
        waiting = []  # per position, the items that wait for each rule
        current = [(self.root, option, 0, 0) for option in self.options[self.root]]
        for position in range(len(text) + 1):
            items, following, wait = dict.fromkeys(current), [], {}
            waiting.append(wait)
            queue = list(items)
            finished = set()
            while queue:
                item = queue.pop()
                rule, option, dot, origin = item
                if dot == len(option):
                    new = []
                    if origin == position:
                        finished.add(rule)
                    for parent, whole, at, start in waiting[origin].get(rule, ()):
                        new.append((parent, whole, at + 1, start))
                elif isinstance(option[dot], int):
                    target = option[dot]
                    known = target in wait
                    wait.setdefault(target, []).append(item)
                    new = (
                        []
                        if known
                        else [(target, each, 0, position) for each in self.options[target]]
                    )
                    if target in finished:
                        new.append((rule, option, dot + 1, origin))
                else:
                    new = []
                    if position < len(text):
                        code = ord(text[position])
                        if any(low <= code <= high for low, high in option[dot]):
                            following.append((rule, option, dot + 1, origin))
                for each in new:
                    if each not in items:
                        items[each] = None
                        queue.append(each)
            if position == len(text):
                return any(
                    rule == self.root and dot == len(option) and origin == 0
                    for rule, option, dot, origin in items
                )
            if not following:
                return False
            current = following
        raise AssertionError("unreachable")
