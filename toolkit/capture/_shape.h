/* Conditions over sizes, as programs of a small stack machine on int64: pairs (operation, argument). Every jump is forward.
   1: holds, 0: does not, -2: an overflow or a division by zero, ask Python. */

enum { S_PUSH, S_LOAD, S_ADD, S_SUB, S_MUL, S_FLOORDIV, S_MOD, S_NEG, S_EQ, S_NE, S_LT, S_LE, S_GT, S_GE, S_NOT, S_MIN, S_MAX,
       S_BOOL, S_JUMP_IF_FALSE, S_JUMP_IF_TRUE, S_COUNT };

static const char *const shape_names[S_COUNT] = {
    "push", "load", "add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "not", "min", "max",
    "bool", "jump_if_false", "jump_if_true",
};

#define SHAPE_STACK 32

static int64_t floor_div(int64_t a, int64_t b) { int64_t q = a / b; return q - ((a % b != 0) && ((a < 0) != (b < 0))); }

static int shape_binary(int64_t op, int64_t *a, int64_t b) {
    switch (op) {
    case S_ADD: return __builtin_add_overflow(*a, b, a);
    case S_SUB: return __builtin_sub_overflow(*a, b, a);
    case S_MUL: return __builtin_mul_overflow(*a, b, a);
    case S_FLOORDIV: if (b == 0 || b == -1) return 1; *a = floor_div(*a, b); return 0;
    case S_MOD: if (b == 0 || b == -1) return 1; *a -= floor_div(*a, b) * b; return 0;
    case S_EQ: *a = *a == b; return 0;
    case S_NE: *a = *a != b; return 0;
    case S_LT: *a = *a < b; return 0;
    case S_LE: *a = *a <= b; return 0;
    case S_GT: *a = *a > b; return 0;
    case S_GE: *a = *a >= b; return 0;
    case S_MIN: *a = *a < b ? *a : b; return 0;
    case S_MAX: *a = *a > b ? *a : b; return 0;
    default: return 1;
    }
}

static int shape_run(const int64_t *code, Py_ssize_t n, const int64_t *symbols) {
    int64_t stack[SHAPE_STACK];
    int top = -1;
    for (Py_ssize_t i = 0; i < n; i++) {
        int64_t op = code[2 * i], arg = code[2 * i + 1];
        switch (op) {
        case S_PUSH: stack[++top] = arg; break;
        case S_LOAD: stack[++top] = symbols[arg]; break;
        case S_NEG: if (__builtin_sub_overflow(0, stack[top], &stack[top])) return -2; break;
        case S_NOT: stack[top] = !stack[top]; break;
        case S_BOOL: stack[top] = !!stack[top]; break;
        case S_JUMP_IF_FALSE: if (!stack[top]) i += arg; else top--; break;
        case S_JUMP_IF_TRUE: if (stack[top]) i += arg; else top--; break;
        default:
            top--;
            if (shape_binary(op, &stack[top], stack[top + 1])) return -2;
        }
    }
    return stack[0] != 0;
}
