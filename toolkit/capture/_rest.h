/* The rest of a frame after a graph break: a resume function and its arguments.

   A compiled frame does not call the resume function: it returns a Rest, and the evaluator of the original frame makes the call once the
   compiled frame is gone. So a loop that breaks in its body does not nest, a traceback has one entry a function as in eager, and nothing
   but the resume function keeps its arguments alive. */

typedef struct {
    PyObject_VAR_HEAD
    PyObject *function;
    PyObject *args[1];
} Rest;

static void rest_dealloc(Rest *r) {
    Py_DECREF(r->function);
    for (Py_ssize_t i = 0; i < Py_SIZE(r); i++) Py_XDECREF(r->args[i]);
    PyObject_Free(r);
}

static PyTypeObject RestType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "fuselab.toolkit.capture._frame.Rest",
    .tp_doc = "What a frame still has to do after a graph break.",
    .tp_basicsize = offsetof(Rest, args),
    .tp_itemsize = sizeof(PyObject *),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = (destructor)rest_dealloc,
};

static PyObject *rest(PyObject *self, PyObject *const *args, Py_ssize_t count) { /* rest(function, *arguments) */
    if (count < 1 || !PyFunction_Check(args[0])) return PyErr_Format(PyExc_TypeError, "rest() takes a function and its arguments");
    Rest *r = PyObject_NewVar(Rest, &RestType, count - 1);
    if (r == NULL) return NULL;
    r->function = Py_NewRef(args[0]);
    for (Py_ssize_t i = 1; i < count; i++) r->args[i - 1] = Py_NewRef(args[i]);
    return (PyObject *)r;
}
