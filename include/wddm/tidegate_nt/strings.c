/*
 * Strings: UNICODE_STRING, ANSI_STRING, and the functions of ntstrsafe.h that copy. Part of
 * tidegate_nt.c. Characters above 0x7F have one case and no narrow form.
 */

#define STRING_TAG 0x67727453u /* 'Strg' */

SIZE_T RtlCompareMemory(const VOID *Source1, const VOID *Source2, SIZE_T Length) {
    const UCHAR *one = (const UCHAR *)Source1;
    const UCHAR *two = (const UCHAR *)Source2;
    SIZE_T equal = 0;
    while (equal < Length && one[equal] == two[equal]) {
        equal++;
    }
    return equal;
}

static SIZE_T length_w(PCWSTR text, SIZE_T most) {
    SIZE_T characters = 0;
    while (characters < most && text[characters] != 0) {
        characters++;
    }
    return characters;
}

static SIZE_T length_a(PCSTR text, SIZE_T most) {
    SIZE_T characters = 0;
    while (characters < most && text[characters] != 0) {
        characters++;
    }
    return characters;
}

VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString) {
    SIZE_T characters = SourceString == NULL ? 0 : length_w(SourceString, 0x7FFE);
    DestinationString->Length = (USHORT)(characters * sizeof(WCHAR));
    DestinationString->MaximumLength =
        (USHORT)(SourceString == NULL ? 0 : (characters + 1) * sizeof(WCHAR));
    DestinationString->Buffer = (PWSTR)(ULONG_PTR)SourceString;
}

VOID RtlInitEmptyUnicodeString(PUNICODE_STRING UnicodeString, PWCHAR Buffer, USHORT BufferSize) {
    UnicodeString->Length = 0;
    UnicodeString->MaximumLength = BufferSize;
    UnicodeString->Buffer = Buffer;
}

VOID RtlInitAnsiString(PANSI_STRING DestinationString, PCSTR SourceString) {
    SIZE_T characters = SourceString == NULL ? 0 : length_a(SourceString, 0xFFFE);
    DestinationString->Length = (USHORT)characters;
    DestinationString->MaximumLength = (USHORT)(SourceString == NULL ? 0 : characters + 1);
    DestinationString->Buffer = (PCHAR)(ULONG_PTR)SourceString;
}

VOID RtlInitString(PSTRING DestinationString, PCSTR SourceString) {
    RtlInitAnsiString(DestinationString, SourceString);
}

static VOID check_string(const char *function, PCUNICODE_STRING text) {
    if (text->Length > text->MaximumLength || text->Length % sizeof(WCHAR) != 0) {
        report(
            "code-string",
            "%s of a string with the length %u and room for %u bytes", function, text->Length,
            text->MaximumLength);
    }
}

VOID RtlCopyUnicodeString(PUNICODE_STRING DestinationString, PCUNICODE_STRING SourceString) {
    USHORT bytes = SourceString == NULL ? 0 : SourceString->Length;
    if (bytes > DestinationString->MaximumLength) {
        bytes = DestinationString->MaximumLength;
    }
    if (bytes != 0) {
        memmove(DestinationString->Buffer, SourceString->Buffer, bytes);
    }
    DestinationString->Length = bytes;
}

static NTSTATUS append(
    const char *function, PUNICODE_STRING to, const WCHAR *text, SIZE_T bytes) {
    check_string(function, to);
    if (to->Length + bytes > to->MaximumLength) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    memmove((PUCHAR)to->Buffer + to->Length, text, bytes);
    to->Length = (USHORT)(to->Length + bytes);
    if (to->Length + sizeof(WCHAR) <= to->MaximumLength) {
        to->Buffer[to->Length / sizeof(WCHAR)] = 0;
    }
    return STATUS_SUCCESS;
}

NTSTATUS RtlAppendUnicodeToString(PUNICODE_STRING Destination, PCWSTR Source) {
    SIZE_T bytes = Source == NULL ? 0 : length_w(Source, 0x8000) * sizeof(WCHAR);
    return bytes == 0 ? STATUS_SUCCESS
                      : append("RtlAppendUnicodeToString", Destination, Source, bytes);
}

NTSTATUS RtlAppendUnicodeStringToString(PUNICODE_STRING Destination, PCUNICODE_STRING Source) {
    check_string("RtlAppendUnicodeStringToString", Source);
    return Source->Length == 0 ? STATUS_SUCCESS
                               : append(
                                     "RtlAppendUnicodeStringToString", Destination,
                                     Source->Buffer, Source->Length);
}

/* Letters */

static WCHAR upper(WCHAR character) {
    return character >= 'a' && character <= 'z' ? (WCHAR)(character - 0x20) : character;
}

WCHAR RtlUpcaseUnicodeChar(WCHAR SourceCharacter) {
    check("RtlUpcaseUnicodeChar", PASSIVE_LEVEL);
    return upper(SourceCharacter);
}

WCHAR RtlDowncaseUnicodeChar(WCHAR SourceCharacter) {
    check("RtlDowncaseUnicodeChar", PASSIVE_LEVEL);
    return SourceCharacter >= 'A' && SourceCharacter <= 'Z' ? (WCHAR)(SourceCharacter + 0x20)
                                                            : SourceCharacter;
}

static LONG compare(PCUNICODE_STRING one, PCUNICODE_STRING two, BOOLEAN any_case) {
    SIZE_T first = one->Length / sizeof(WCHAR);
    SIZE_T second = two->Length / sizeof(WCHAR);
    SIZE_T i;
    for (i = 0; i < first && i < second; i++) {
        WCHAR a = any_case ? upper(one->Buffer[i]) : one->Buffer[i];
        WCHAR b = any_case ? upper(two->Buffer[i]) : two->Buffer[i];
        if (a != b) {
            return (LONG)a - (LONG)b;
        }
    }
    return (LONG)first - (LONG)second;
}

LONG RtlCompareUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive) {
    check("RtlCompareUnicodeString", PASSIVE_LEVEL);
    return compare(String1, String2, CaseInSensitive);
}

BOOLEAN RtlEqualUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive) {
    check("RtlEqualUnicodeString", PASSIVE_LEVEL);
    return compare(String1, String2, CaseInSensitive) == 0;
}

BOOLEAN RtlPrefixUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive) {
    UNICODE_STRING start = *String2;
    check("RtlPrefixUnicodeString", PASSIVE_LEVEL);
    if (start.Length < String1->Length) {
        return FALSE;
    }
    start.Length = String1->Length;
    return compare(String1, &start, CaseInSensitive) == 0;
}

/* Numbers. Base 0 is 10, or what a prefix 0x, 0o or 0b says. */

NTSTATUS RtlUnicodeStringToInteger(PCUNICODE_STRING String, ULONG Base, PULONG Value) {
    SIZE_T count = String->Length / sizeof(WCHAR);
    SIZE_T i = 0;
    BOOLEAN negative = FALSE;
    ULONG value = 0;
    check("RtlUnicodeStringToInteger", PASSIVE_LEVEL);
    while (i < count && String->Buffer[i] <= ' ') {
        i++;
    }
    if (i < count && (String->Buffer[i] == '-' || String->Buffer[i] == '+')) {
        negative = String->Buffer[i++] == '-';
    }
    if (Base == 0) {
        Base = 10;
        if (i + 1 < count && String->Buffer[i] == '0') {
            WCHAR kind = String->Buffer[i + 1];
            ULONG of = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
            if (of != 0) {
                Base = of;
                i += 2;
            }
        }
    }
    if (Base != 2 && Base != 8 && Base != 10 && Base != 16) {
        report(
            "code-string",
            "RtlUnicodeStringToInteger with the base %u: 0, 2, 8, 10, 16 are allowed", Base);
        return STATUS_INVALID_PARAMETER;
    }
    for (; i < count; i++) {
        WCHAR digit = upper(String->Buffer[i]);
        ULONG of = digit >= '0' && digit <= '9'   ? (ULONG)(digit - '0')
                   : digit >= 'A' && digit <= 'F' ? (ULONG)(digit - 'A' + 10)
                                                  : 16;
        if (of >= Base) {
            break;
        }
        value = value * Base + of;
    }
    *Value = negative ? 0 - value : value;
    return STATUS_SUCCESS;
}

static NTSTATUS put_integer(
    const char *function, ULONG64 value, ULONG base, PUNICODE_STRING to) {
    WCHAR text[65];
    SIZE_T at = ARRAYSIZE(text) - 1;
    SIZE_T bytes;
    base = base == 0 ? 10 : base;
    if (base != 2 && base != 8 && base != 10 && base != 16) {
        report("code-string", "%s with the base %u: 0, 2, 8, 10, 16 are allowed", function, base);
        return STATUS_INVALID_PARAMETER;
    }
    text[at] = 0;
    do {
        text[--at] = (WCHAR)"0123456789ABCDEF"[value % base];
        value /= base;
    } while (value != 0);
    bytes = (ARRAYSIZE(text) - 1 - at) * sizeof(WCHAR);
    if (bytes + sizeof(WCHAR) > to->MaximumLength) {
        return STATUS_BUFFER_OVERFLOW;
    }
    memcpy(to->Buffer, text + at, bytes + sizeof(WCHAR));
    to->Length = (USHORT)bytes;
    return STATUS_SUCCESS;
}

NTSTATUS RtlIntegerToUnicodeString(ULONG Value, ULONG Base, PUNICODE_STRING String) {
    check("RtlIntegerToUnicodeString", PASSIVE_LEVEL);
    return put_integer("RtlIntegerToUnicodeString", Value, Base, String);
}

NTSTATUS RtlInt64ToUnicodeString(ULONGLONG Value, ULONG Base, PUNICODE_STRING String) {
    check("RtlInt64ToUnicodeString", PASSIVE_LEVEL);
    return put_integer("RtlInt64ToUnicodeString", Value, Base, String);
}

/* Between widths */

NTSTATUS RtlAnsiStringToUnicodeString(
    PUNICODE_STRING DestinationString, PCANSI_STRING SourceString,
    BOOLEAN AllocateDestinationString) {
    SIZE_T bytes = ((SIZE_T)SourceString->Length + 1) * sizeof(WCHAR);
    SIZE_T i;
    check("RtlAnsiStringToUnicodeString", PASSIVE_LEVEL);
    if (bytes > 0xFFFE) {
        return STATUS_INVALID_PARAMETER_2;
    }
    if (AllocateDestinationString) {
        DestinationString->Buffer = (PWSTR)allocate(bytes, STRING_TAG, TRUE);
        DestinationString->MaximumLength = (USHORT)bytes;
        if (DestinationString->Buffer == NULL) {
            return STATUS_NO_MEMORY;
        }
    } else if (bytes - sizeof(WCHAR) > DestinationString->MaximumLength) {
        return STATUS_BUFFER_OVERFLOW;
    }
    for (i = 0; i < SourceString->Length; i++) {
        DestinationString->Buffer[i] = (UCHAR)SourceString->Buffer[i];
    }
    DestinationString->Length = (USHORT)(SourceString->Length * sizeof(WCHAR));
    if (bytes <= DestinationString->MaximumLength) {
        DestinationString->Buffer[i] = 0;
    }
    return STATUS_SUCCESS;
}

NTSTATUS RtlUnicodeStringToAnsiString(
    PANSI_STRING DestinationString, PCUNICODE_STRING SourceString,
    BOOLEAN AllocateDestinationString) {
    SIZE_T count = SourceString->Length / sizeof(WCHAR);
    SIZE_T i;
    check("RtlUnicodeStringToAnsiString", PASSIVE_LEVEL);
    if (AllocateDestinationString) {
        DestinationString->Buffer = (PCHAR)allocate(count + 1, STRING_TAG, TRUE);
        DestinationString->MaximumLength = (USHORT)(count + 1);
        if (DestinationString->Buffer == NULL) {
            return STATUS_NO_MEMORY;
        }
    } else if (count >= DestinationString->MaximumLength) {
        return STATUS_BUFFER_OVERFLOW;
    }
    for (i = 0; i < count; i++) {
        WCHAR character = SourceString->Buffer[i];
        DestinationString->Buffer[i] = (CHAR)(character < 0x80 ? character : '?');
    }
    DestinationString->Buffer[count] = 0;
    DestinationString->Length = (USHORT)count;
    return STATUS_SUCCESS;
}

VOID RtlFreeUnicodeString(PUNICODE_STRING UnicodeString) {
    check("RtlFreeUnicodeString", PASSIVE_LEVEL);
    if (UnicodeString->Buffer != NULL) {
        release(UnicodeString->Buffer, STRING_TAG);
        RtlZeroMemory(UnicodeString, sizeof(*UnicodeString));
    }
}

VOID RtlFreeAnsiString(PANSI_STRING AnsiString) {
    check("RtlFreeAnsiString", PASSIVE_LEVEL);
    if (AnsiString->Buffer != NULL) {
        release(AnsiString->Buffer, STRING_TAG);
        RtlZeroMemory(AnsiString, sizeof(*AnsiString));
    }
}

/* ntstrsafe.h. `at` is where the copy begins. */

#define COPY(character, suffix, length) \
    static NTSTATUS copy_##suffix( \
        const char *function, character *to, SIZE_T room, SIZE_T at, const character *from) { \
        SIZE_T count; \
        if (room == 0 || room > NTSTRSAFE_MAX_CCH) { \
            report( \
                "code-string", \
                "%s with room for %llu characters", function, (unsigned long long)room); \
            return STATUS_INVALID_PARAMETER; \
        } \
        if (at >= room) { \
            report("code-string", "%s to a text without an end", function); \
            return STATUS_INVALID_PARAMETER; \
        } \
        count = length(from, room - at); \
        if (count == room - at) { \
            memmove(to + at, from, (count - 1) * sizeof(*to)); \
            to[room - 1] = 0; \
            return STATUS_BUFFER_OVERFLOW; \
        } \
        memmove(to + at, from, count * sizeof(*to)); \
        to[at + count] = 0; \
        return STATUS_SUCCESS; \
    } \
    static NTSTATUS measure_##suffix(const character *text, SIZE_T most, PSIZE_T found) { \
        SIZE_T count = text == NULL || most > NTSTRSAFE_MAX_CCH ? most : length(text, most); \
        if (found != NULL) { \
            *found = count == most ? 0 : count; \
        } \
        return count == most ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS; \
    }

COPY(CHAR, a, length_a)
COPY(WCHAR, w, length_w)

#define SAFE(suffix, character, text, width, length) \
    NTSTATUS RtlStringCbCopy##suffix(character *Destination, SIZE_T Bytes, text Source) { \
        return copy_##length( \
            "RtlStringCbCopy" #suffix, Destination, Bytes / width, 0, Source); \
    } \
    NTSTATUS RtlStringCchCopy##suffix( \
        character *Destination, SIZE_T Characters, text Source) { \
        return copy_##length("RtlStringCchCopy" #suffix, Destination, Characters, 0, Source); \
    } \
    NTSTATUS RtlStringCbCat##suffix(character *Destination, SIZE_T Bytes, text Source) { \
        return copy_##length( \
            "RtlStringCbCat" #suffix, Destination, Bytes / width, \
            length_##length(Destination, Bytes / width), Source); \
    } \
    NTSTATUS RtlStringCchCat##suffix( \
        character *Destination, SIZE_T Characters, text Source) { \
        return copy_##length( \
            "RtlStringCchCat" #suffix, Destination, Characters, \
            length_##length(Destination, Characters), Source); \
    } \
    NTSTATUS RtlStringCbLength##suffix(text String, SIZE_T MostBytes, PSIZE_T Length) { \
        NTSTATUS status = measure_##length(String, MostBytes / width, Length); \
        if (Length != NULL) { \
            *Length *= width; \
        } \
        return status; \
    } \
    NTSTATUS RtlStringCchLength##suffix( \
        text String, SIZE_T MostCharacters, PSIZE_T Length) { \
        return measure_##length(String, MostCharacters, Length); \
    }

SAFE(A, CHAR, PCSTR, sizeof(CHAR), a)
SAFE(W, WCHAR, PCWSTR, sizeof(WCHAR), w)

static NTSTATUS copy_string(
    const char *function, PUNICODE_STRING to, USHORT at, PCWSTR from) {
    SIZE_T bytes = from == NULL ? 0 : length_w(from, 0x8000) * sizeof(WCHAR);
    NTSTATUS status = STATUS_SUCCESS;
    check_string(function, to);
    if (at + bytes > to->MaximumLength) {
        bytes = (SIZE_T)(to->MaximumLength - at) & ~(SIZE_T)1;
        status = STATUS_BUFFER_OVERFLOW;
    }
    if (bytes != 0) {
        memmove((PUCHAR)to->Buffer + at, from, bytes);
    }
    to->Length = (USHORT)(at + bytes);
    return status;
}

NTSTATUS RtlUnicodeStringCopyString(PUNICODE_STRING Destination, PCWSTR Source) {
    return copy_string("RtlUnicodeStringCopyString", Destination, 0, Source);
}

NTSTATUS RtlUnicodeStringCatString(PUNICODE_STRING Destination, PCWSTR Source) {
    return copy_string(
        "RtlUnicodeStringCatString", Destination, Destination->Length, Source);
}
