/* The guard program: a tree of accesses that share their beginnings, with checks at its nodes, then a few last checks over all.

   A node is (access, operand, index, checks, children, guard, watch, settled checks, settled children), a check (check, operand, slot,
   guard), a last check (last, operand, a, b, count, fallback, guard); `guard` is the position in the GuardSet that a failure names.
   Python builds these tuples (program.py) and the program keeps them, so that operands live as long as it does; the structs below
   borrow from them. */

typedef struct {
    PyObject *const *args;
    Py_ssize_t count;
    PyObject *globals, *builtins, *closure; /* closure: tuple or NULL */
} Values;

enum { A_ROOT, A_LOCAL, A_GLOBALS, A_BUILTINS, A_CELL, A_CONST, A_ATTR, A_DICT_ATTR, A_DICT, A_ITEM, A_TUPLE_ITEM, A_DICT_KEY,
       A_WEAKREF, A_CODE, A_DEFAULTS, A_KWDEFAULTS, A_CLOSURE, A_METHOD_SELF, A_METHOD_FUNCTION, A_CALL,
       A_CALL_METHOD, A_OWN_CELL, A_COUNT };

static const char *const access_names[A_COUNT] = {
    "root", "local", "globals", "builtins", "cell", "const", "attr", "dict_attr", "dict", "item", "tuple_item", "dict_key",
    "weakref", "code", "defaults", "kwdefaults", "closure", "method_self", "method_function", "call",
    "call_method", "own_cell",
};

enum { C_TYPE_IS, C_ID_IS, C_ID_IS_NOT, C_EQUALS, C_LENGTH, C_KEYS, C_CONTAINS, C_LACKS, C_LACKS_ATTR,
       C_CALL, C_SAME_ITEMS, C_WATCH, C_KEEP, C_INT, C_ALIVE, C_REF_IS, C_COUNT };

static const char *const check_names[C_COUNT] = {
    "type_is", "id_is", "id_is_not", "equals", "length", "keys", "contains", "lacks", "lacks_attr",
    "call", "same_items", "watch", "keep", "int", "alive", "ref_is",
};

enum { L_HELD, L_TENSORS, L_SAME, L_DISTINCT, L_STATE, L_SHAPE, L_CALL, L_FUNCTIONS, L_COUNT };

static const char *const last_names[L_COUNT] = {"held", "tensors", "same", "distinct", "state", "shape", "call", "functions"};

typedef struct {
    int op, guard;
    Py_ssize_t slot; /* where C_KEEP and C_INT put the value; the length of C_LENGTH */
    PyObject *operand;
} Check;

typedef struct Node {
    int op, guard;
    Py_ssize_t index; /* of a local, cell or item */
    PyObject *operand;
    Py_ssize_t checks_count, children_count;
    Check *checks;
    struct Node *children;
    Watch *watch; /* NULL, or of one dict: while that is the value's and unchanged, the first checks and children hold */
    Py_ssize_t settled_checks, settled_children;
} Node;

typedef struct {
    int op, guard;
    PyObject *operand, *fallback;
    Py_ssize_t a, b, count; /* slots; of L_SHAPE: instructions */
    int64_t *code;
} Last;

typedef struct {
    PyObject_HEAD
    PyObject *parts; /* (root node, last checks): owns every operand */
    Node root;
    Last *last;
    Py_ssize_t last_count, slots, ints;
} Program;

static PyTypeObject ProgramType;

typedef struct {
    const Values *values;
    PyObject **slots; /* strong, NULL where nothing was kept */
    int64_t *ints;
    int failed;
} Run;

/* -- access: a new reference, or NULL; with no exception set the thing is not there ------------------------------------------ */

static PyObject *maybe(PyObject *borrowed) { return Py_XNewRef(borrowed); }

static PyObject *class_dict(PyTypeObject *type) { /* borrowed */
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *dict = PyType_GetDict(type);
    Py_XDECREF(dict);
    return dict;
#else
    return type->tp_dict;
#endif
}

static PyObject *instance_dict(PyObject *v) { /* borrowed or NULL */
    if (PyType_Check(v)) return class_dict((PyTypeObject *)v);
    if (PyModule_Check(v)) return PyModule_GetDict(v);
    PyObject **place = _PyObject_GetDictPtr(v);
    if (place && !*place) *place = PyDict_New(); /* not made yet: it is empty */
    return place ? *place : NULL;
}

static PyObject *get_item(PyObject *v, PyObject *key, Py_ssize_t index) {
    PyMappingMethods *mapping = Py_TYPE(v)->tp_as_mapping;
    if (PyDict_Check(v) && mapping->mp_subscript == PyDict_Type.tp_as_mapping->mp_subscript) return maybe(PyDict_GetItemWithError(v, key));
    if (PyTuple_CheckExact(v) && PyLong_CheckExact(key))
        return index >= 0 && index < PyTuple_GET_SIZE(v) ? Py_NewRef(PyTuple_GET_ITEM(v, index)) : PyObject_GetItem(v, key);
    return PyObject_GetItem(v, key);
}

static PyObject *sequence_item(PyObject *v, Py_ssize_t i) {
    if (PyTuple_Check(v)) {
        i += i < 0 ? PyTuple_GET_SIZE(v) : 0;
        return i >= 0 && i < PyTuple_GET_SIZE(v) ? Py_NewRef(PyTuple_GET_ITEM(v, i)) : NULL;
    }
    if (!PyList_Check(v)) return NULL;
    i += i < 0 ? PyList_GET_SIZE(v) : 0;
    return i >= 0 && i < PyList_GET_SIZE(v) ? Py_NewRef(PyList_GET_ITEM(v, i)) : NULL;
}

static PyObject *dict_key(PyObject *v, Py_ssize_t index) {
    if (!PyDict_Check(v)) return NULL;
    PyObject *iterator = PyObject_GetIter(v), *key = NULL;
    for (Py_ssize_t i = 0; iterator && i <= index; i++) {
        Py_XSETREF(key, PyIter_Next(iterator));
        if (key == NULL) break;
    }
    Py_XDECREF(iterator);
    return key;
}

static PyObject *weakref_target(PyObject *v) {
    if (!PyWeakref_Check(v)) return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *target = NULL;
    PyWeakref_GetRef(v, &target);
    return target;
#else
    PyObject *target = PyWeakref_GetObject(v);
    return target == Py_None ? NULL : Py_NewRef(target);
#endif
}

static PyObject *cell_contents(PyObject *closure, Py_ssize_t i) {
    if (closure == NULL || !PyTuple_Check(closure) || i >= PyTuple_GET_SIZE(closure)) return NULL;
    return PyCell_Get(PyTuple_GET_ITEM(closure, i));
}

static PyObject *function_part(int op, PyObject *v, Py_ssize_t index) {
    if (!PyFunction_Check(v)) return NULL;
    PyFunctionObject *f = (PyFunctionObject *)v;
    switch (op) {
    case A_CODE: return Py_NewRef(f->func_code);
    case A_DEFAULTS: return Py_NewRef(f->func_defaults ? f->func_defaults : Py_None);
    case A_KWDEFAULTS: return Py_NewRef(f->func_kwdefaults ? f->func_kwdefaults : Py_None);
    default: return cell_contents(f->func_closure, index);
    }
}

static PyObject *root_value(const Node *n, const Values *values) {
    switch (n->op) {
    case A_LOCAL: return n->index < values->count ? maybe(values->args[n->index]) : NULL;
    case A_GLOBALS: return Py_NewRef(values->globals);
    case A_BUILTINS: return Py_NewRef(values->builtins);
    case A_CELL: return cell_contents(values->closure, n->index);
    case A_OWN_CELL: return values->closure == NULL ? NULL : Py_NewRef(PyTuple_GET_ITEM(values->closure, n->index));
    default: return Py_NewRef(n->operand); /* A_CONST */
    }
}

static PyObject *read_part(const Node *n, PyObject *v, const Values *values) {
    PyObject *dict;
    switch (n->op) {
    case A_ATTR: return PyObject_GetAttr(v, n->operand);
    case A_DICT_ATTR: dict = instance_dict(v); return dict ? maybe(PyDict_GetItemWithError(dict, n->operand)) : NULL;
    case A_DICT: return maybe(instance_dict(v));
    case A_ITEM: return get_item(v, n->operand, n->index);
    case A_TUPLE_ITEM: return sequence_item(v, n->index);
    case A_DICT_KEY: return dict_key(v, n->index);
    case A_WEAKREF: return weakref_target(v);
    case A_METHOD_SELF: return PyMethod_Check(v) ? Py_NewRef(PyMethod_GET_SELF(v)) : NULL;
    case A_METHOD_FUNCTION: return PyMethod_Check(v) ? Py_NewRef(PyMethod_GET_FUNCTION(v)) : NULL;
    case A_CALL: return PyObject_CallOneArg(n->operand, v);
    case A_CALL_METHOD: return PyObject_CallMethodNoArgs(v, n->operand);
    case A_CODE: case A_DEFAULTS: case A_KWDEFAULTS: case A_CLOSURE:
        return function_part(n->op, v, n->index);
    default: return root_value(n, values);
    }
}

/* -- checks: 1 holds, 0 does not, -1 an exception is set ---------------------------------------------------------------------- */

static int truth_of_call(PyObject *result) {
    if (result == NULL) return -1;
    int truth = PyObject_IsTrue(result);
    Py_DECREF(result);
    return truth;
}

static int keys_are(PyObject *dict, PyObject *keys) {
    if (!PyDict_Check(dict) || PyDict_GET_SIZE(dict) != PyTuple_GET_SIZE(keys)) return 0;
    if (!PyDict_CheckExact(dict)) {
        PyObject *found = PySequence_Tuple(dict);
        int same = found ? same_constant(found, keys) : -1;
        Py_XDECREF(found);
        return same;
    }
    PyObject *key;
    Py_ssize_t position = 0;
    for (Py_ssize_t i = 0; PyDict_Next(dict, &position, &key, NULL); i++) {
        int same = i < PyTuple_GET_SIZE(keys) ? same_constant(key, PyTuple_GET_ITEM(keys, i)) : 0;
        if (same != 1) return same;
    }
    return 1;
}

static int contains(PyObject *v, PyObject *key) { return PyDict_Check(v) ? PyDict_Contains(v, key) : PySequence_Contains(v, key); }

static int inverted(int answer) { return answer < 0 ? answer : !answer; }

static int has_attr(PyObject *v, PyObject *name) {
    PyObject *found = PyObject_GetAttr(v, name);
    if (found != NULL) { Py_DECREF(found); return 1; }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
    return 0;
}

static int same_objects(PyObject *v, PyObject *expected) {
    if (v == expected) return 1;
    if (!PyTuple_Check(v) || !PyTuple_Check(expected) || PyTuple_GET_SIZE(v) != PyTuple_GET_SIZE(expected)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v); i++)
        if (PyTuple_GET_ITEM(v, i) != PyTuple_GET_ITEM(expected, i)) return 0;
    return 1;
}

static Py_ssize_t length_of(PyObject *v) {
    if (PyTuple_CheckExact(v) || PyList_CheckExact(v)) return Py_SIZE(v);
    return PyDict_CheckExact(v) ? PyDict_GET_SIZE(v) : PyObject_Size(v);
}

static int keep_int(Run *run, const Check *c, PyObject *v) {
    int overflow = 0;
    if (!PyLong_CheckExact(v)) return 0;
    run->ints[c->slot] = PyLong_AsLongLongAndOverflow(v, &overflow);
    return !overflow;
}

static int alive(PyObject *v) {
    PyObject *target = weakref_target(v);
    Py_XDECREF(target);
    return target != NULL;
}

static int is_target(PyObject *v, PyObject *reference) { /* `v` is alive, so comparing addresses is enough */
    PyObject *target = weakref_target(reference);
    Py_XDECREF(target);
    return target == v;
}

static int check_value(Run *run, const Check *c, PyObject *v) {
    switch (c->op) {
    case C_TYPE_IS: return (PyObject *)Py_TYPE(v) == c->operand;
    case C_ID_IS: return v == c->operand;
    case C_ID_IS_NOT: return v != c->operand;
    case C_EQUALS: return same_constant(v, c->operand);
    case C_LENGTH: { Py_ssize_t n = length_of(v); return n < 0 ? -1 : n == c->slot; }
    case C_KEYS: return keys_are(v, c->operand);
    case C_CONTAINS: return contains(v, c->operand);
    case C_LACKS: return inverted(contains(v, c->operand));
    case C_LACKS_ATTR: return inverted(has_attr(v, c->operand));
    case C_CALL: return truth_of_call(PyObject_CallOneArg(c->operand, v));
    case C_SAME_ITEMS: return same_objects(v, c->operand);
    case C_WATCH: return watch_holds((Watch *)c->operand);
    case C_KEEP: Py_XSETREF(run->slots[c->slot], Py_NewRef(v)); return 1;
    case C_INT: return keep_int(run, c, v);
    case C_REF_IS: return is_target(v, c->operand);
    default: return alive(v);
    }
}

static int run_node(Run *run, const Node *n, PyObject *v);

static int run_checks(Run *run, const Node *n, PyObject *v, Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t i = from; i < to; i++) {
        int holds = check_value(run, &n->checks[i], v);
        if (holds != 1) { run->failed = n->checks[i].guard; return holds; }
    }
    return 1;
}

static int run_children(Run *run, const Node *n, PyObject *v, Py_ssize_t from, Py_ssize_t to) {
    for (Py_ssize_t i = from; i < to; i++) {
        const Node *child = &n->children[i];
        PyObject *part = read_part(child, v, run->values);
        if (part == NULL) { run->failed = child->guard; return PyErr_Occurred() ? -1 : 0; }
        int holds = run_node(run, child, part);
        Py_DECREF(part);
        if (holds != 1) return holds;
    }
    return 1;
}

static int run_settled(Run *run, const Node *n, PyObject *v) {
    int same = (PyDict_Check(v) ? v : instance_dict(v)) == PyTuple_GET_ITEM(n->watch->dicts, 0);
    if (same && !any_dict_changed(n->watch)) return 1;
    if (same) accept_dicts(n->watch); /* before the checks: a store during them is seen next time */
    int holds = run_checks(run, n, v, 0, n->settled_checks);
    if (holds == 1) holds = run_children(run, n, v, 0, n->settled_children);
    if (same && holds != 1) suspect_dicts(n->watch);
    return holds;
}

static int run_node(Run *run, const Node *n, PyObject *v) {
    int holds = n->watch ? run_settled(run, n, v) : 1;
    if (holds == 1) holds = run_checks(run, n, v, n->settled_checks, n->checks_count);
    return holds == 1 ? run_children(run, n, v, n->settled_children, n->children_count) : holds;
}

/* (function, expected[, argument[, shortcut]]): `function([argument])` gives what is expected; it does if `shortcut()` is False. */
static int torch_state_is(PyObject *operand) {
    if (PyTuple_GET_SIZE(operand) > 3) {
        int truth = truth_of_call(PyObject_CallNoArgs(PyTuple_GET_ITEM(operand, 3)));
        if (truth != 1) return inverted(truth);
    }
    PyObject *function = PyTuple_GET_ITEM(operand, 0), *expected = PyTuple_GET_ITEM(operand, 1);
    PyObject *argument = PyTuple_GET_SIZE(operand) > 2 ? PyTuple_GET_ITEM(operand, 2) : NULL;
    PyObject *now = argument ? PyObject_CallOneArg(function, argument) : PyObject_CallNoArgs(function);
    if (now == NULL) return -1;
    int same = now == expected ? 1 : PyObject_RichCompareBool(now, expected, Py_EQ);
    Py_DECREF(now);
    return same;
}

/* A tuple of functions, each followed by its code, its defaults and its keyword defaults (None: it has none). */
static int functions_hold(PyObject *rows) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i += 4) {
        PyFunctionObject *f = (PyFunctionObject *)PyTuple_GET_ITEM(rows, i);
        if (f->func_code != PyTuple_GET_ITEM(rows, i + 1)) return 0;
        if ((f->func_defaults ? f->func_defaults : Py_None) != PyTuple_GET_ITEM(rows, i + 2)) return 0;
        if ((f->func_kwdefaults ? f->func_kwdefaults : Py_None) != PyTuple_GET_ITEM(rows, i + 3)) return 0;
    }
    return 1;
}

static int are_functions(PyObject *rows) {
    if (!PyTuple_Check(rows) || PyTuple_GET_SIZE(rows) % 4) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rows); i += 4)
        if (!PyFunction_Check(PyTuple_GET_ITEM(rows, i))) return 0;
    return 1;
}

static int shape_in_python(Run *run, const Last *l, const Program *p) {
    PyObject *symbols = PyTuple_New(p->ints);
    for (Py_ssize_t i = 0; symbols && i < p->ints; i++) {
        PyObject *number = PyLong_FromLongLong(run->ints[i]);
        if (number == NULL) Py_CLEAR(symbols); else PyTuple_SET_ITEM(symbols, i, number);
    }
    int holds = symbols ? truth_of_call(PyObject_CallOneArg(l->fallback, symbols)) : -1;
    Py_XDECREF(symbols);
    return holds;
}

static int last_check(Run *run, const Last *l, const Program *p) {
    switch (l->op) {
    case L_HELD: return held_hold((Held *)l->operand, run->slots, l->count);
    case L_TENSORS: return truth_of_call(PyObject_Vectorcall(l->operand, run->slots, l->count, NULL));
    case L_SAME: return run->slots[l->a] == run->slots[l->b];
    case L_DISTINCT: return run->slots[l->a] != run->slots[l->b];
    case L_STATE: return torch_state_is(l->operand);
    case L_FUNCTIONS: return functions_hold(l->operand);
    case L_CALL: return truth_of_call(PyObject_Vectorcall(l->operand, run->slots + l->a, l->count, NULL));
    default: {
        int holds = l->code ? shape_run(l->code, l->count, run->ints) : -2;
        return holds == -2 ? shape_in_python(run, l, p) : holds;
    }
    }
}

/* 1: all guards hold; 0: guard `*failed` does not; -1: an exception that must be seen (KeyboardInterrupt and the like) is set. */
static int program_run(const Program *p, const Values *values, int *failed) {
    PyObject *slots[p->slots + 1];
    int64_t ints[p->ints + 1];
    memset(slots, 0, sizeof slots);
    Run run = {values, slots, ints, -1};
    int holds = run_node(&run, &p->root, Py_None);
    for (Py_ssize_t i = 0; holds == 1 && i < p->last_count; i++) {
        holds = last_check(&run, &p->last[i], p);
        if (holds != 1) run.failed = p->last[i].guard;
    }
    if (holds < 0 && PyErr_ExceptionMatches(PyExc_Exception)) { PyErr_Clear(); holds = 0; }
    *failed = run.failed;
    for (Py_ssize_t i = 0; i < p->slots; i++) Py_XDECREF(slots[i]);
    return holds;
}

/* -- from Python's tuples ---------------------------------------------------------------------------------------------------- */

static int parse_checks(Node *n, PyObject *checks) {
    n->checks = PyMem_Calloc(PyTuple_GET_SIZE(checks) + 1, sizeof(Check));
    if (n->checks == NULL) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(checks); i++, n->checks_count++) {
        Check *c = &n->checks[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(checks, i), "iOni", &c->op, &c->operand, &c->slot, &c->guard)) return -1;
        if (c->op == C_WATCH && !Py_IS_TYPE(c->operand, &WatchType)) return refuse("a Watch is needed");
        if (c->op == C_KEYS && !PyTuple_Check(c->operand)) return refuse("a tuple is needed");
    }
    return 0;
}

static int parse_node(Node *n, PyObject *tuple) {
    PyObject *checks, *children, *watch;
    if (!PyArg_ParseTuple(tuple, "iOnO!O!iOnn", &n->op, &n->operand, &n->index, &PyTuple_Type, &checks, &PyTuple_Type, &children, &n->guard,
                          &watch, &n->settled_checks, &n->settled_children)) return -1;
    if (watch != Py_None && (!Py_IS_TYPE(watch, &WatchType) || PyTuple_GET_SIZE(((Watch *)watch)->dicts) != 1))
        return refuse("a Watch of one dict is needed");
    n->watch = watch == Py_None ? NULL : (Watch *)watch;
    if (n->settled_checks < 0 || n->settled_checks > PyTuple_GET_SIZE(checks) || n->settled_children < 0 ||
        n->settled_children > PyTuple_GET_SIZE(children)) return refuse("more is settled than there is");
    if (parse_checks(n, checks) < 0) return -1;
    n->children = PyMem_Calloc(PyTuple_GET_SIZE(children) + 1, sizeof(Node));
    if (n->children == NULL) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(children); i++) {
        n->children_count++;
        if (parse_node(&n->children[i], PyTuple_GET_ITEM(children, i)) < 0) return -1;
    }
    return 0;
}

static int parse_last(Last *l, PyObject *tuple) { /* (last, operand, a, b, count, fallback, guard) */
    if (!PyArg_ParseTuple(tuple, "iOnnnOi", &l->op, &l->operand, &l->a, &l->b, &l->count, &l->fallback, &l->guard)) return -1;
    if (l->op == L_STATE && !PyTuple_Check(l->operand)) return refuse("a tuple is needed");
    if (l->op == L_FUNCTIONS && !are_functions(l->operand)) return refuse("functions with their parts are needed");
    if (l->op == L_HELD && !Py_IS_TYPE(l->operand, &HeldType)) return refuse("a Held is needed");
    if (l->op != L_SHAPE || l->operand == Py_None) return 0;
    l->code = PyMem_Calloc(2 * l->count + 1, sizeof(int64_t));
    if (l->code == NULL) return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < 2 * l->count; i++) l->code[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(l->operand, i));
    return PyErr_Occurred() ? -1 : 0;
}

static void free_node(Node *n) {
    for (Py_ssize_t i = 0; i < n->children_count; i++) free_node(&n->children[i]);
    PyMem_Free(n->children);
    PyMem_Free(n->checks);
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    PyObject *root, *last;
    Py_ssize_t slots, ints;
    if (!PyArg_ParseTuple(args, "O!O!nn", &PyTuple_Type, &root, &PyTuple_Type, &last, &slots, &ints)) return NULL;
    Program *p = (Program *)type->tp_alloc(type, 0);
    if (p == NULL) return NULL;
    p->slots = slots, p->ints = ints;
    p->parts = PyTuple_Pack(2, root, last);
    p->last = PyMem_Calloc(PyTuple_GET_SIZE(last) + 1, sizeof(Last));
    if (p->parts == NULL || p->last == NULL || parse_node(&p->root, root) < 0) goto failed;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(last); i++) {
        p->last_count++;
        if (parse_last(&p->last[i], PyTuple_GET_ITEM(last, i)) < 0) goto failed;
    }
    return (PyObject *)p;
failed:
    Py_DECREF(p);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static int program_traverse(Program *p, visitproc visit, void *arg) {
    Py_VISIT(p->parts);
    return 0;
}

static void program_dealloc(Program *p) {
    PyObject_GC_UnTrack(p);
    free_node(&p->root);
    for (Py_ssize_t i = 0; i < p->last_count; i++) PyMem_Free(p->last[i].code);
    PyMem_Free(p->last);
    Py_CLEAR(p->parts);
    Py_TYPE(p)->tp_free((PyObject *)p);
}

static PyObject *program_check(PyObject *self, PyObject *args) {
    PyObject *arguments, *globals, *builtins, *function;
    if (!PyArg_ParseTuple(args, "O!OOO!", &PyTuple_Type, &arguments, &globals, &builtins, &PyFunction_Type, &function)) return NULL;
    Values values = {&PyTuple_GET_ITEM(arguments, 0), PyTuple_GET_SIZE(arguments), globals, builtins, PyFunction_GET_CLOSURE(function)};
    int failed, holds = program_run((Program *)self, &values, &failed);
    return holds < 0 ? NULL : PyLong_FromLong(holds ? -1 : failed);
}

static PyMethodDef program_methods[] = {
    {"check", program_check, METH_VARARGS, "check(arguments, globals, builtins, function): the guard that fails, or -1."},
    {NULL},
};

static PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Program",
    .tp_doc = "Program(root, last, slots, ints): guards that C evaluates; program.py builds it.",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = program_new,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_methods = program_methods,
};
