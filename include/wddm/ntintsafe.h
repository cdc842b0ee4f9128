/*
 * Arithmetic and conversions of unsigned integers that report an overflow, for C11 and C++17.
 *
 * A function returns STATUS_INTEGER_OVERFLOW and stores the highest value of the type if the result
 * does not fit.
 */
#ifndef TIDEGATE_WDDM_NTINTSAFE_H
#define TIDEGATE_WDDM_NTINTSAFE_H

#include "ntddk.h"

#define TIDEGATE_CHECKED(name, type, operation) \
    FORCEINLINE NTSTATUS name(type a, type b, type *result) { \
        type sum = 0; \
        BOOLEAN fits = !operation(a, b, &sum); \
        *result = fits ? sum : (type)~(type)0; \
        return fits ? STATUS_SUCCESS : STATUS_INTEGER_OVERFLOW; \
    }

#define TIDEGATE_CHECKED_TYPE(short_name, type) \
    TIDEGATE_CHECKED(Rtl##short_name##Add, type, __builtin_add_overflow) \
    TIDEGATE_CHECKED(Rtl##short_name##Sub, type, __builtin_sub_overflow) \
    TIDEGATE_CHECKED(Rtl##short_name##Mult, type, __builtin_mul_overflow)

TIDEGATE_CHECKED_TYPE(UShort, USHORT)
TIDEGATE_CHECKED_TYPE(UInt, UINT)
TIDEGATE_CHECKED_TYPE(ULong, ULONG)
TIDEGATE_CHECKED_TYPE(SizeT, SIZE_T)
TIDEGATE_CHECKED_TYPE(ULongLong, ULONGLONG)
TIDEGATE_CHECKED_TYPE(ULongPtr, ULONG_PTR)

#define TIDEGATE_CONVERSION(name, wide, narrow) \
    FORCEINLINE NTSTATUS name(wide value, narrow *result) { \
        BOOLEAN fits = (wide)(narrow)value == value; \
        *result = fits ? (narrow)value : (narrow)~(narrow)0; \
        return fits ? STATUS_SUCCESS : STATUS_INTEGER_OVERFLOW; \
    }

TIDEGATE_CONVERSION(RtlULongToUShort, ULONG, USHORT)
TIDEGATE_CONVERSION(RtlULongToUChar, ULONG, UCHAR)
TIDEGATE_CONVERSION(RtlUIntToUShort, UINT, USHORT)
TIDEGATE_CONVERSION(RtlSizeTToULong, SIZE_T, ULONG)
TIDEGATE_CONVERSION(RtlSizeTToUInt, SIZE_T, UINT)
TIDEGATE_CONVERSION(RtlSizeTToUShort, SIZE_T, USHORT)
TIDEGATE_CONVERSION(RtlULongLongToULong, ULONGLONG, ULONG)
TIDEGATE_CONVERSION(RtlULongLongToUInt, ULONGLONG, UINT)

#undef TIDEGATE_CHECKED
#undef TIDEGATE_CHECKED_TYPE
#undef TIDEGATE_CONVERSION

#endif
