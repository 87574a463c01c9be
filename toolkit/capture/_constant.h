/* When two constants are the same to a guard: constants.py says it in Python. 1: yes, 0: no, -1: an error is set. */

static int same_constant(PyObject *a, PyObject *b);

static int same_double(double a, double b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

static int same_items(PyObject *a, PyObject *b) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(a);
    if (n != PySequence_Fast_GET_SIZE(b)) return 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        int same = same_constant(PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i));
        if (same != 1) return same;
    }
    return 1;
}

static int same_slice(PyObject *a, PyObject *b) {
    PySliceObject *x = (PySliceObject *)a, *y = (PySliceObject *)b;
    int same = same_constant(x->start, y->start);
    if (same == 1) same = same_constant(x->stop, y->stop);
    if (same == 1) same = same_constant(x->step, y->step);
    return same;
}

static int same_constant(PyObject *a, PyObject *b) {
    if (a == b) return 1;
    if (Py_TYPE(a) != Py_TYPE(b)) return 0;
    if (PyUnicode_CheckExact(a)) return PyUnicode_GET_LENGTH(a) == PyUnicode_GET_LENGTH(b) && PyUnicode_Compare(a, b) == 0;
    if (PyFloat_Check(a)) return same_double(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    if (PyComplex_Check(a)) {
        Py_complex x = PyComplex_AsCComplex(a), y = PyComplex_AsCComplex(b);
        return same_double(x.real, y.real) && same_double(x.imag, y.imag);
    }
    if (PyTuple_Check(a) || PyList_Check(a)) return same_items(a, b);
    if (PySlice_Check(a)) return same_slice(a, b);
    return PyObject_RichCompareBool(a, b, Py_EQ);
}
