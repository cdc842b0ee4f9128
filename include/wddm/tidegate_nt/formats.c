/*
 * Formats of DbgPrint and of the printf functions of ntstrsafe.h. Part of tidegate_nt.c.
 *
 * - LONG has 32 bits: so have arguments of %ld and %lu.
 * - %S is a text of the other width; %ws and %ls are wide, %hs is narrow; %wZ takes a
 *   UNICODE_STRING, %Z an ANSI_STRING; %wc and %C are characters; %I64x has 64 bits.
 * - A character that does not fit into the target becomes '?'.
 */

/* Where a text goes: characters of 1 or 2 bytes, the last for the end. */
typedef struct _TARGET {
    PSTR Narrow;
    PWSTR Wide;
    SIZE_T Capacity;
    SIZE_T Used;
    BOOLEAN Cut;
    /* A wide argument was read: the conversion needs PASSIVE level. */
    BOOLEAN Unicode;
} TARGET;

static VOID put(TARGET *target, ULONG character) {
    if (target->Used + 1 >= target->Capacity) {
        target->Cut = TRUE;
        return;
    }
    if (target->Wide != NULL) {
        target->Wide[target->Used++] = (WCHAR)character;
    } else {
        target->Narrow[target->Used++] = (CHAR)(character < 0x80 ? character : '?');
    }
}

static VOID finish(TARGET *target) {
    if (target->Capacity == 0) {
        target->Cut = TRUE;
    } else if (target->Wide != NULL) {
        target->Wide[target->Used] = 0;
    } else {
        target->Narrow[target->Used] = 0;
    }
}

typedef struct _FORMAT {
    BOOLEAN Left, Zero, Plus, Space, Alternate;
    int Width;
    int Precision; /* -1 for none */
    /* 'h', 'l', 'w', '8' for 64 bits, 'z' for the size of a pointer, or 0 */
    char Length;
} FORMAT;

static VOID pad(TARGET *target, int count, char with) {
    for (; count > 0; count--) {
        put(target, (ULONG)with);
    }
}

static VOID put_text(
    TARGET *target, const FORMAT *format, const VOID *text, BOOLEAN wide, SIZE_T most) {
    SIZE_T length = 0;
    SIZE_T i;
    if (text == NULL) {
        text = "(null)";
        wide = FALSE;
        most = 6;
    }
    if (format->Precision >= 0 && most > (SIZE_T)format->Precision) {
        most = (SIZE_T)format->Precision;
    }
    while (length < most &&
           (wide ? ((PCWSTR)text)[length] != 0 : ((PCSTR)text)[length] != 0)) {
        length++;
    }
    target->Unicode |= wide;
    if (!format->Left) {
        pad(target, format->Width - (int)length, ' ');
    }
    for (i = 0; i < length; i++) {
        put(target, wide ? ((PCWSTR)text)[i] : (UCHAR)((PCSTR)text)[i]);
    }
    if (format->Left) {
        pad(target, format->Width - (int)length, ' ');
    }
}

static VOID put_number(TARGET *target, const FORMAT *format, UINT64 value, char kind) {
    char digits[32];
    char sign[3] = {0, 0, 0};
    const char *set = kind == 'X' || kind == 'p' ? "0123456789ABCDEF" : "0123456789abcdef";
    UINT64 base = kind == 'x' || kind == 'X' || kind == 'p' ? 16 : kind == 'o' ? 8 : 10;
    int count = 0;
    int zeros;
    int spaces;
    int i;
    if (kind == 'd' && (LONG64)value < 0) {
        value = 0 - value;
        sign[0] = '-';
    } else if (kind == 'd' && (format->Plus || format->Space)) {
        sign[0] = format->Plus ? '+' : ' ';
    } else if (format->Alternate && base == 16 && value != 0) {
        sign[0] = '0';
        sign[1] = kind;
    }
    for (; value != 0; value /= base) {
        digits[count++] = set[value % base];
    }
    zeros = (format->Precision < 0 ? 1 : format->Precision) - count;
    zeros = zeros > 0 ? zeros : 0;
    spaces = format->Width - count - zeros - (int)strlen(sign);
    if (format->Zero && !format->Left && format->Precision < 0 && spaces > 0) {
        zeros += spaces;
        spaces = 0;
    }
    if (!format->Left) {
        pad(target, spaces, ' ');
    }
    for (i = 0; sign[i] != 0; i++) {
        put(target, (ULONG)sign[i]);
    }
    pad(target, zeros, '0');
    while (count > 0) {
        put(target, (ULONG)digits[--count]);
    }
    if (format->Left) {
        pad(target, spaces, ' ');
    }
}

/* A format of either width. */
typedef struct _SOURCE {
    PCSTR Narrow;
    PCWSTR Wide;
} SOURCE;

static ULONG character_at(const SOURCE *source, SIZE_T at) {
    return source->Wide != NULL ? source->Wide[at] : (UCHAR)source->Narrow[at];
}

static SIZE_T read_number(const SOURCE *source, SIZE_T at, int *number) {
    *number = 0;
    while (character_at(source, at) >= '0' && character_at(source, at) <= '9') {
        *number = *number % 1000000 * 10 + (int)(character_at(source, at++) - '0');
    }
    return at;
}

/* Reads the length. Returns the place of the conversion. */
static SIZE_T read_length(const SOURCE *source, SIZE_T at, FORMAT *format) {
    ULONG first = character_at(source, at);
    if (first == 'I') {
        ULONG second = character_at(source, at + 1);
        ULONG third = second == 0 ? 0 : character_at(source, at + 2);
        if ((second == '6' && third == '4') || (second == '3' && third == '2')) {
            format->Length = second == '6' ? '8' : 'l';
            return at + 3;
        }
        format->Length = 'z';
        return at + 1;
    }
    if (first == 'z' || first == 'j' || first == 't') {
        format->Length = 'z';
        return at + 1;
    }
    if (first == 'l' && character_at(source, at + 1) == 'l') {
        format->Length = '8';
        return at + 2;
    }
    if (first == 'h' || first == 'l' || first == 'w' || first == 'L') {
        format->Length = (char)first;
        at++;
        while (first == 'h' && character_at(source, at) == 'h') {
            format->Length = 'b';
            at++;
        }
    }
    return at;
}

/* A wrapper: va_list may be an array, which a function would not advance for its caller. */
typedef struct _ARGUMENTS {
    va_list List;
} ARGUMENTS;

static UINT64 integer(const FORMAT *format, BOOLEAN is_signed, ARGUMENTS *arguments) {
    if (format->Length == '8' || format->Length == 'z') {
        return va_arg(arguments->List, UINT64);
    }
    {
        UINT32 value = va_arg(arguments->List, UINT32);
        switch (format->Length) {
        case 'h':
            return is_signed ? (UINT64)(LONG64)(SHORT)value : (USHORT)value;
        case 'b':
            return is_signed ? (UINT64)(LONG64)(int8_t)value : (UCHAR)value;
        default:
            return is_signed ? (UINT64)(LONG64)(LONG)value : value;
        }
    }
}

static VOID put_real(TARGET *target, const FORMAT *format, char kind, double value) {
    FORMAT whole = *format;
    char specification[16];
    char text[400];
    (void)snprintf(
        specification, sizeof(specification), "%%%s%s.*%c", format->Plus ? "+" : "",
        format->Alternate ? "#" : "", kind);
    (void)snprintf(
        text, sizeof(text), specification, format->Precision < 0 ? 6 : format->Precision, value);
    whole.Precision = -1;
    put_text(target, &whole, text, FALSE, sizeof(text));
}

/* Carries out one conversion. Returns FALSE for a character that is none. */
static BOOLEAN convert(
    TARGET *target, FORMAT *format, ULONG kind, BOOLEAN wide_source, ARGUMENTS *arguments) {
    BOOLEAN is_wide = format->Length == 'l' || format->Length == 'w';
    BOOLEAN wide;
    switch (kind) {
    case 'd':
    case 'i':
        put_number(target, format, integer(format, TRUE, arguments), 'd');
        return TRUE;
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        put_number(target, format, integer(format, FALSE, arguments), (char)kind);
        return TRUE;
    case 'p':
        format->Precision = 16;
        put_number(target, format, (UINT64)(ULONG_PTR)va_arg(arguments->List, PVOID), 'p');
        return TRUE;
    case 'c':
    case 'C': {
        WCHAR text[2] = {(WCHAR)va_arg(arguments->List, int), 0};
        wide = (kind == 'C') != wide_source;
        wide = is_wide || (wide && format->Length != 'h');
        if (!wide) {
            text[0] = (UCHAR)text[0];
        }
        format->Precision = -1;
        if (text[0] == 0) {
            put(target, 0);
        } else {
            put_text(target, format, text, TRUE, 1);
        }
        return TRUE;
    }
    case 's':
    case 'S':
        wide = (kind == 'S') != wide_source;
        wide = is_wide || (wide && format->Length != 'h');
        put_text(target, format, va_arg(arguments->List, PVOID), wide, (SIZE_T)1 << 30);
        return TRUE;
    case 'Z':
        if (is_wide) {
            PCUNICODE_STRING text = va_arg(arguments->List, PCUNICODE_STRING);
            put_text(
                target, format, text == NULL ? NULL : text->Buffer, TRUE,
                text == NULL ? 0 : text->Length / sizeof(WCHAR));
        } else {
            PCANSI_STRING text = va_arg(arguments->List, PCANSI_STRING);
            put_text(
                target, format, text == NULL ? NULL : text->Buffer, FALSE,
                text == NULL ? 0 : text->Length);
        }
        return TRUE;
    case 'e':
    case 'E':
    case 'f':
    case 'g':
    case 'G':
        put_real(target, format, (char)kind, va_arg(arguments->List, double));
        return TRUE;
    case '%':
        put(target, '%');
        return TRUE;
    default:
        return FALSE;
    }
}

/* Writes a text and its end. `name` is the function that was called. */
static VOID write_text(TARGET *target, const char *name, SOURCE source, ARGUMENTS *arguments) {
    SIZE_T at = 0;
    ULONG character;
    while ((character = character_at(&source, at)) != 0) {
        FORMAT format = {FALSE, FALSE, FALSE, FALSE, FALSE, 0, -1, 0};
        at++;
        if (character != '%') {
            put(target, character);
            continue;
        }
        for (;; at++) {
            character = character_at(&source, at);
            if (character == '-') {
                format.Left = TRUE;
            } else if (character == '0') {
                format.Zero = TRUE;
            } else if (character == '+') {
                format.Plus = TRUE;
            } else if (character == ' ') {
                format.Space = TRUE;
            } else if (character == '#') {
                format.Alternate = TRUE;
            } else {
                break;
            }
        }
        if (character == '*') {
            format.Width = va_arg(arguments->List, int);
            if (format.Width < 0) {
                format.Left = TRUE;
                format.Width = -format.Width;
            }
            at++;
        } else {
            at = read_number(&source, at, &format.Width);
        }
        if (character_at(&source, at) == '.') {
            if (character_at(&source, at + 1) == '*') {
                format.Precision = va_arg(arguments->List, int);
                at += 2;
            } else {
                at = read_number(&source, at + 1, &format.Precision);
            }
        }
        at = read_length(&source, at, &format);
        character = character_at(&source, at);
        if (character == 0) {
            break;
        }
        at++;
        if (!convert(target, &format, character, source.Wide != NULL, arguments)) {
            report(
                "code-string", "%s with the conversion %%%c, which is none", name, (int)character);
            break;
        }
    }
    finish(target);
    if (target->Unicode && source.Wide == NULL) {
        check(name, PASSIVE_LEVEL);
    }
}

/* Messages */

static VOID print(const char *name, PCSTR format, ARGUMENTS *arguments) {
    char text[512];
    TARGET target = {text, NULL, sizeof(text), 0, FALSE, FALSE};
    SOURCE source = {format, NULL};
    write_text(&target, name, source, arguments);
    host->Print(host->Host, text);
}

ULONG DbgPrint(PCSTR Format, ...) {
    ARGUMENTS arguments;
    va_start(arguments.List, Format);
    print("DbgPrint", Format, &arguments);
    va_end(arguments.List);
    return 0;
}

ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...) {
    ARGUMENTS arguments;
    UNREFERENCED_PARAMETER(ComponentId);
    UNREFERENCED_PARAMETER(Level);
    va_start(arguments.List, Format);
    print("DbgPrintEx", Format, &arguments);
    va_end(arguments.List);
    return 0;
}

/* ntstrsafe.h: printf. Counts are of characters from here on. */

static NTSTATUS print_to(
    const char *name, TARGET target, PCSTR narrow, PCWSTR wide, ARGUMENTS *arguments) {
    SOURCE source = {narrow, wide};
    check(name, PASSIVE_LEVEL);
    if (target.Capacity == 0 || target.Capacity > NTSTRSAFE_MAX_CCH) {
        report(
            "code-string",
            "%s with room for %llu characters", name, (unsigned long long)target.Capacity);
        return STATUS_INVALID_PARAMETER;
    }
    write_text(&target, name, source, arguments);
    return target.Cut ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}

#define PRINT_A(name, count, characters) \
    NTSTATUS name(PSTR Destination, SIZE_T count, PCSTR Format, ...) { \
        TARGET target = {Destination, NULL, characters, 0, FALSE, FALSE}; \
        ARGUMENTS arguments; \
        NTSTATUS status; \
        va_start(arguments.List, Format); \
        status = print_to(#name, target, Format, NULL, &arguments); \
        va_end(arguments.List); \
        return status; \
    }
#define PRINT_W(name, count, characters) \
    NTSTATUS name(PWSTR Destination, SIZE_T count, PCWSTR Format, ...) { \
        TARGET target = {NULL, Destination, characters, 0, FALSE, FALSE}; \
        ARGUMENTS arguments; \
        NTSTATUS status; \
        va_start(arguments.List, Format); \
        status = print_to(#name, target, NULL, Format, &arguments); \
        va_end(arguments.List); \
        return status; \
    }

PRINT_A(RtlStringCbPrintfA, Bytes, Bytes)
PRINT_A(RtlStringCchPrintfA, Characters, Characters)
PRINT_W(RtlStringCbPrintfW, Bytes, Bytes / sizeof(WCHAR))
PRINT_W(RtlStringCchPrintfW, Characters, Characters)

NTSTATUS RtlStringCbVPrintfA(
    PSTR Destination, SIZE_T Bytes, PCSTR Format, __builtin_va_list Arguments) {
    TARGET target = {Destination, NULL, Bytes, 0, FALSE, FALSE};
    ARGUMENTS arguments;
    NTSTATUS status;
    va_copy(arguments.List, Arguments);
    status = print_to("RtlStringCbVPrintfA", target, Format, NULL, &arguments);
    va_end(arguments.List);
    return status;
}

NTSTATUS RtlStringCbVPrintfW(
    PWSTR Destination, SIZE_T Bytes, PCWSTR Format, __builtin_va_list Arguments) {
    TARGET target = {NULL, Destination, Bytes / sizeof(WCHAR), 0, FALSE, FALSE};
    ARGUMENTS arguments;
    NTSTATUS status;
    va_copy(arguments.List, Arguments);
    status = print_to("RtlStringCbVPrintfW", target, NULL, Format, &arguments);
    va_end(arguments.List);
    return status;
}

/* The text has no end of its own: the length says where it ends. */
NTSTATUS RtlUnicodeStringPrintf(PUNICODE_STRING Destination, PCWSTR Format, ...) {
    TARGET target = {
        NULL, Destination->Buffer, Destination->MaximumLength / sizeof(WCHAR), 0, FALSE, FALSE};
    SOURCE source = {NULL, Format};
    ARGUMENTS arguments;
    check("RtlUnicodeStringPrintf", PASSIVE_LEVEL);
    va_start(arguments.List, Format);
    write_text(&target, "RtlUnicodeStringPrintf", source, &arguments);
    va_end(arguments.List);
    Destination->Length = (USHORT)(target.Used * sizeof(WCHAR));
    return target.Cut ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}
