/*
 * Bounded strings, for C11 and C++17. Cb functions count bytes, Cch functions count characters.
 * Both counts include the terminating zero. A result that does not fit is cut and ended by a zero.
 */
#ifndef TIDEGATE_WDDM_NTSTRSAFE_H
#define TIDEGATE_WDDM_NTSTRSAFE_H

#include "ntddk.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NTSTRSAFE_MAX_CCH 2147483647

typedef PSTR NTSTRSAFE_PSTR;
typedef PCSTR NTSTRSAFE_PCSTR;
typedef PWSTR NTSTRSAFE_PWSTR;
typedef PCWSTR NTSTRSAFE_PCWSTR;

NTSTATUS RtlStringCbPrintfA(PSTR Destination, SIZE_T Bytes, PCSTR Format, ...);
NTSTATUS RtlStringCbPrintfW(PWSTR Destination, SIZE_T Bytes, PCWSTR Format, ...);
NTSTATUS RtlStringCchPrintfA(PSTR Destination, SIZE_T Characters, PCSTR Format, ...);
NTSTATUS RtlStringCchPrintfW(PWSTR Destination, SIZE_T Characters, PCWSTR Format, ...);
NTSTATUS RtlUnicodeStringPrintf(PUNICODE_STRING Destination, PCWSTR Format, ...);
NTSTATUS RtlUnicodeStringCopyString(PUNICODE_STRING Destination, PCWSTR Source);
NTSTATUS RtlUnicodeStringCatString(PUNICODE_STRING Destination, PCWSTR Source);
NTSTATUS RtlStringCbCopyA(PSTR Destination, SIZE_T Bytes, PCSTR Source);
NTSTATUS RtlStringCbCopyW(PWSTR Destination, SIZE_T Bytes, PCWSTR Source);
NTSTATUS RtlStringCchCopyA(PSTR Destination, SIZE_T Characters, PCSTR Source);
NTSTATUS RtlStringCchCopyW(PWSTR Destination, SIZE_T Characters, PCWSTR Source);
NTSTATUS RtlStringCbCatA(PSTR Destination, SIZE_T Bytes, PCSTR Source);
NTSTATUS RtlStringCbCatW(PWSTR Destination, SIZE_T Bytes, PCWSTR Source);
NTSTATUS RtlStringCchCatA(PSTR Destination, SIZE_T Characters, PCSTR Source);
NTSTATUS RtlStringCchCatW(PWSTR Destination, SIZE_T Characters, PCWSTR Source);
NTSTATUS RtlStringCbLengthA(PCSTR String, SIZE_T MostBytes, PSIZE_T Length);
NTSTATUS RtlStringCbLengthW(PCWSTR String, SIZE_T MostBytes, PSIZE_T Length);
NTSTATUS RtlStringCchLengthA(PCSTR String, SIZE_T MostCharacters, PSIZE_T Length);
NTSTATUS RtlStringCchLengthW(PCWSTR String, SIZE_T MostCharacters, PSIZE_T Length);
NTSTATUS RtlStringCbVPrintfA(
    PSTR Destination, SIZE_T Bytes, PCSTR Format, __builtin_va_list Arguments);
NTSTATUS RtlStringCbVPrintfW(
    PWSTR Destination, SIZE_T Bytes, PCWSTR Format, __builtin_va_list Arguments);

#ifdef __cplusplus
}
#endif

#endif
