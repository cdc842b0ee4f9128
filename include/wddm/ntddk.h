/*
 * The part of the NT kernel interface that display miniport drivers use, for C11 and C++17.
 *
 * - Names, types and numbers are the published ones; the declarations are written from them.
 * - LONG and ULONG have 32 bits and WCHAR has 16. Compile with -fshort-wchar, so that L"text" has
 *   16 bits in each character.
 * - Structures whose members are named Opaque have no published layout. Their sizes are ours.
 * - A comment "derived" marks a number or a type that no published page prints.
 */
#ifndef TIDEGATE_WDDM_NTDDK_H
#define TIDEGATE_WDDM_NTDDK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define EXTERN_C extern "C"
extern "C" {
#else
#define EXTERN_C extern
#endif

/* Calling conventions and linkage */

#define APIENTRY
#define NTAPI
#define CALLBACK
#define WINAPI
#define FASTCALL
#define __cdecl
#define __stdcall
#define __fastcall
#define NTKERNELAPI
#define NTSYSAPI
#define NTHALAPI
#define DECLSPEC_IMPORT
#define FORCEINLINE static inline __attribute__((always_inline, unused))
#define DECLSPEC_ALIGN(bytes) __attribute__((aligned(bytes)))
#define DECLSPEC_NORETURN __attribute__((noreturn))
#define DECLSPEC_NOINLINE __attribute__((noinline))
#define UNALIGNED
#define CONST const
#define VOID void
#define IN
#define OUT
#define OPTIONAL

#define ANYSIZE_ARRAY 1
#define DUMMYSTRUCTNAME
#define DUMMYUNIONNAME
#define __pragma(...)
#ifndef __forceinline
#define __forceinline inline __attribute__((always_inline))
#endif
#ifndef __declspec
#define __declspec(attribute) __attribute__((attribute))
#endif

/*
 * Structured exceptions do not exist: the body of __try runs, the body of __except never does, and
 * an access to a bad address ends the process.
 */
#ifndef TIDEGATE_NO_STRUCTURED_EXCEPTIONS
#define __try if (1)
#define __except(filter) else if (0)
#define __finally
#define EXCEPTION_EXECUTE_HANDLER 1
#define EXCEPTION_CONTINUE_SEARCH 0
#define GetExceptionCode() 0
#endif

/* Annotations: without effect */

#define _Analysis_noreturn_
#define _Check_return_
#define _Const_
#define _Field_range_all_
#define _Frees_ptr_opt_
#define _IRQL_requires_same_
#define _IRQL_restores_
#define _IRQL_saves_
#define _In_
#define _In_opt_
#define _In_opt_z_
#define _In_z_
#define _Inout_
#define _Inout_opt_
#define _Literal_
#define _Maybenull_
#define _Must_inspect_result_
#define _Notliteral_
#define _Notnull_
#define _NullNull_terminated_
#define _Null_terminated_
#define _Out_
#define _Out_opt_
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_maybenull_
#define _Points_to_data_
#define _Post_invalid_
#define _Post_writable_
#define _Pre_notnull_
#define _Printf_format_string_
#define _Reserved_
#define _Ret_maybenull_
#define _Use_decl_annotations_
#define __drv_aliasesMem
#define _Acquires_exclusive_lock_(...)
#define _Acquires_lock_(...)
#define _Analysis_assume_(...)
#define _At_(...)
#define _Dispatch_type_(...)
#define _Field_range_(...)
#define _Field_size_(...)
#define _Field_size_bytes_(...)
#define _Field_size_bytes_DXGK_(...)
#define _Field_size_bytes_opt_(...)
#define _Field_size_opt_(...)
#define _Function_class_(...)
#define _Function_class_DXGK_(...)
#define _Guarded_by_(...)
#define _IRQL_always_function_max_(...)
#define _IRQL_raises_(...)
#define _IRQL_requires_(...)
#define _IRQL_requires_DXGK_(...)
#define _IRQL_requires_max_(...)
#define _IRQL_requires_max_DXGK_(...)
#define _IRQL_requires_min_(...)
#define _IRQL_requires_min_DXGK_(...)
#define _IRQL_restores_global_(...)
#define _IRQL_saves_global_(...)
#define _In_range_(...)
#define _In_reads_(...)
#define _In_reads_bytes_(...)
#define _In_reads_bytes_opt_(...)
#define _In_reads_opt_(...)
#define _In_reads_z_(...)
#define _Inout_updates_(...)
#define _Inout_updates_all_(...)
#define _Inout_updates_bytes_(...)
#define _Inout_updates_opt_(...)
#define _Kernel_clear_do_init_(...)
#define _Out_writes_(...)
#define _Out_writes_all_(...)
#define _Out_writes_bytes_(...)
#define _Out_writes_bytes_all_(...)
#define _Out_writes_bytes_opt_(...)
#define _Out_writes_bytes_to_(...)
#define _Out_writes_bytes_to_opt_(...)
#define _Out_writes_opt_(...)
#define _Out_writes_to_(...)
#define _Out_writes_z_(...)
#define _Outptr_result_buffer_(...)
#define _Outptr_result_bytebuffer_(...)
#define _Post_satisfies_(...)
#define _Pre_satisfies_(...)
#define _Releases_exclusive_lock_(...)
#define _Releases_lock_(...)
#define _Requires_lock_held_(...)
#define _Requires_lock_not_held_(...)
#define _Struct_size_bytes_(...)
#define _Success_(...)
#define _When_(...)
#define __drv_allocatesMem(...)
#define __drv_freesMem(...)

/* The C++ library has parameters of these names: define the first macro before its headers. */
#ifndef TIDEGATE_NO_OLD_ANNOTATIONS
#define __in
#define __out
#define __inout
#define __in_opt
#define __out_opt
#define __inout_opt
#define __checkReturn
#define __control_entrypoint(...)
#define __in_bcount(...)
#define __out_bcount(...)
#define __in_ecount(...)
#define __out_ecount(...)
#endif

/* Scalars */

typedef int8_t CCHAR;
typedef char CHAR;
typedef uint8_t UCHAR;
typedef uint8_t BYTE;
typedef uint8_t BOOLEAN;
typedef int16_t SHORT;
typedef int16_t CSHORT;
typedef uint16_t USHORT;
typedef uint16_t WORD;
typedef int32_t INT;
typedef uint32_t UINT;
typedef int32_t LONG;
typedef uint32_t ULONG;
typedef uint32_t DWORD;
typedef int32_t BOOL;
typedef int64_t LONGLONG;
typedef uint64_t ULONGLONG;
typedef uint8_t UINT8;
typedef uint16_t UINT16;
typedef int32_t INT32;
typedef uint32_t UINT32;
typedef uint32_t ULONG32;
typedef int64_t INT64;
typedef uint64_t UINT64;
typedef int64_t LONG64;
typedef uint64_t ULONG64;
typedef uint64_t DWORD64;
typedef intptr_t INT_PTR;
typedef uintptr_t UINT_PTR;
typedef intptr_t LONG_PTR;
typedef uintptr_t ULONG_PTR;
typedef size_t SIZE_T;
typedef intptr_t SSIZE_T;
typedef void *PVOID;
typedef void *HANDLE;
#if __SIZEOF_WCHAR_T__ == 2
typedef wchar_t WCHAR;
#else
typedef uint16_t WCHAR;
#endif

typedef LONG NTSTATUS;
typedef LONG KPRIORITY;
typedef ULONG ACCESS_MASK;
typedef ULONG_PTR KAFFINITY;
typedef UCHAR KIRQL;
typedef ULONG_PTR KSPIN_LOCK;
typedef ULONG_PTR PFN_NUMBER;
typedef ULONG64 POOL_FLAGS;
typedef LONGLONG USN;

typedef const void *PCVOID;
typedef void **PPVOID;
typedef CHAR *PCHAR;
typedef CHAR *PSTR;
typedef const CHAR *PCSTR;
typedef WCHAR *PWCHAR;
typedef WCHAR *PWSTR;
typedef const WCHAR *PCWSTR;
typedef UCHAR *PUCHAR;
typedef BYTE *PBYTE;
typedef BOOLEAN *PBOOLEAN;
typedef SHORT *PSHORT;
typedef USHORT *PUSHORT;
typedef INT *PINT;
typedef UINT *PUINT;
typedef LONG *PLONG;
typedef ULONG *PULONG;
typedef DWORD *PDWORD;
typedef LONGLONG *PLONGLONG;
typedef ULONGLONG *PULONGLONG;
typedef UINT64 *PUINT64;
typedef ULONG64 *PULONG64;
typedef SIZE_T *PSIZE_T;
typedef ULONG_PTR *PULONG_PTR;
typedef HANDLE *PHANDLE;
typedef NTSTATUS *PNTSTATUS;
typedef KIRQL *PKIRQL;
typedef KSPIN_LOCK *PKSPIN_LOCK;
typedef PFN_NUMBER *PPFN_NUMBER;
typedef ACCESS_MASK *PACCESS_MASK;

#define TRUE 1
#define FALSE 0
#ifdef __cplusplus
/* A pure virtual function may end with `= NULL` in the code of a driver. */
#undef NULL
#define NULL 0
#endif

#define MAXUCHAR 0xFFu
#define MAXUSHORT 0xFFFFu
#define MAXLONG 0x7FFFFFFF
#define MAXULONG 0xFFFFFFFFu
#define MAXULONG64 0xFFFFFFFFFFFFFFFFu
#define MAXLONGLONG 0x7FFFFFFFFFFFFFFF

#define PAGE_SIZE 4096u
#define PAGE_SHIFT 12
#define BYTE_OFFSET(address) ((ULONG)((ULONG_PTR)(address) & (PAGE_SIZE - 1)))
#define PAGE_ALIGN(address) ((PVOID)((ULONG_PTR)(address) & ~((ULONG_PTR)PAGE_SIZE - 1)))
#define BYTES_TO_PAGES(bytes) (((bytes) >> PAGE_SHIFT) + (((bytes) & (PAGE_SIZE - 1)) != 0))
#define ROUND_TO_PAGES(bytes) (((ULONG_PTR)(bytes) + PAGE_SIZE - 1) & ~((ULONG_PTR)PAGE_SIZE - 1))
#define ADDRESS_AND_SIZE_TO_SPAN_PAGES(address, bytes) \
    ((ULONG)((BYTE_OFFSET(address) + (SIZE_T)(bytes) + PAGE_SIZE - 1) >> PAGE_SHIFT))

#define FIELD_OFFSET(type, field) ((LONG)offsetof(type, field))
#define RTL_FIELD_SIZE(type, field) (sizeof(((type *)0)->field))
#define RTL_SIZEOF_THROUGH_FIELD(type, field) \
    (offsetof(type, field) + RTL_FIELD_SIZE(type, field))
#define CONTAINING_RECORD(address, type, field) \
    ((type *)((PCHAR)(address) - (ULONG_PTR)offsetof(type, field)))
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#define RTL_NUMBER_OF(array) ARRAYSIZE(array)
#define ARGUMENT_PRESENT(pointer) ((pointer) != NULL)
#define UNREFERENCED_PARAMETER(name) ((void)(name))
#define DBG_UNREFERENCED_PARAMETER(name) ((void)(name))
#ifdef __cplusplus
#define C_ASSERT(condition) static_assert(condition, #condition)
#else
#define C_ASSERT(condition) _Static_assert(condition, #condition)
#endif
/* The C++ library has functions of these names: define NOMINMAX to include its headers. */
#ifndef NOMINMAX
#ifndef min
#define min(a, b) (((a) < (b)) ? (a) : (b))
#endif
#ifndef max
#define max(a, b) (((a) > (b)) ? (a) : (b))
#endif
#endif

/* Status codes */

#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define NT_INFORMATION(status) (((ULONG)(status) >> 30) == 1)
#define NT_WARNING(status) (((ULONG)(status) >> 30) == 2)
#define NT_ERROR(status) (((ULONG)(status) >> 30) == 3)

#define STATUS_SUCCESS ((NTSTATUS)0x00000000)
#define STATUS_WAIT_0 ((NTSTATUS)0x00000000)
#define STATUS_WAIT_1 ((NTSTATUS)0x00000001)
#define STATUS_WAIT_2 ((NTSTATUS)0x00000002)
#define STATUS_WAIT_3 ((NTSTATUS)0x00000003)
#define STATUS_WAIT_63 ((NTSTATUS)0x0000003F)
#define STATUS_ABANDONED ((NTSTATUS)0x00000080)
#define STATUS_ABANDONED_WAIT_0 ((NTSTATUS)0x00000080)
#define STATUS_ABANDONED_WAIT_63 ((NTSTATUS)0x000000BF)
#define STATUS_ALERTED ((NTSTATUS)0x00000101)
#define STATUS_TIMEOUT ((NTSTATUS)0x00000102)
#define STATUS_PENDING ((NTSTATUS)0x00000103)
#define STATUS_OBJECT_NAME_EXISTS ((NTSTATUS)0x40000000)
#define STATUS_GRAPHICS_PARTIAL_DATA_POPULATED ((NTSTATUS)0x401E000A)
#define STATUS_GRAPHICS_SKIP_ALLOCATION_PREPARATION ((NTSTATUS)0x401E0201)
#define STATUS_GRAPHICS_MODE_NOT_PINNED ((NTSTATUS)0x401E0307)
#define STATUS_GRAPHICS_NO_PREFERRED_MODE ((NTSTATUS)0x401E031E)
#define STATUS_GRAPHICS_DATASET_IS_EMPTY ((NTSTATUS)0x401E034B)
#define STATUS_GRAPHICS_NO_MORE_ELEMENTS_IN_DATASET ((NTSTATUS)0x401E034C)
#define STATUS_GRAPHICS_PATH_CONTENT_GEOMETRY_TRANSFORMATION_NOT_PINNED ((NTSTATUS)0x401E0351)
#define STATUS_GRAPHICS_UNKNOWN_CHILD_STATUS ((NTSTATUS)0x401E042F)
#define STATUS_GRAPHICS_LEADLINK_START_DEFERRED ((NTSTATUS)0x401E0437)
#define STATUS_GRAPHICS_POLLING_TOO_FREQUENTLY ((NTSTATUS)0x401E0439)
#define STATUS_GRAPHICS_START_DEFERRED ((NTSTATUS)0x401E043A)
#define STATUS_GRAPHICS_DEPENDABLE_CHILD_STATUS ((NTSTATUS)0x401E043C)
#define STATUS_BUFFER_OVERFLOW ((NTSTATUS)0x80000005)
#define STATUS_DEVICE_POWERED_OFF ((NTSTATUS)0x8000000F)
#define STATUS_DEVICE_BUSY ((NTSTATUS)0x80000011)
#define STATUS_NO_MORE_ENTRIES ((NTSTATUS)0x8000001A)
#define STATUS_GRAPHICS_LINK_CONFIGURATION_IN_PROGRESS ((NTSTATUS)0x801E0000)
#define STATUS_UNSUCCESSFUL ((NTSTATUS)0xC0000001)
#define STATUS_NOT_IMPLEMENTED ((NTSTATUS)0xC0000002)
#define STATUS_INVALID_INFO_CLASS ((NTSTATUS)0xC0000003)
#define STATUS_INFO_LENGTH_MISMATCH ((NTSTATUS)0xC0000004)
#define STATUS_ACCESS_VIOLATION ((NTSTATUS)0xC0000005)
#define STATUS_INVALID_HANDLE ((NTSTATUS)0xC0000008)
#define STATUS_INVALID_CID ((NTSTATUS)0xC000000B)
#define STATUS_INVALID_PARAMETER ((NTSTATUS)0xC000000D)
#define STATUS_NO_SUCH_DEVICE ((NTSTATUS)0xC000000E)
#define STATUS_INVALID_DEVICE_REQUEST ((NTSTATUS)0xC0000010)
#define STATUS_MORE_PROCESSING_REQUIRED ((NTSTATUS)0xC0000016)
#define STATUS_NO_MEMORY ((NTSTATUS)0xC0000017)
#define STATUS_CONFLICTING_ADDRESSES ((NTSTATUS)0xC0000018)
#define STATUS_ILLEGAL_INSTRUCTION ((NTSTATUS)0xC000001D)
#define STATUS_ACCESS_DENIED ((NTSTATUS)0xC0000022)
#define STATUS_BUFFER_TOO_SMALL ((NTSTATUS)0xC0000023)
#define STATUS_OBJECT_TYPE_MISMATCH ((NTSTATUS)0xC0000024)
#define STATUS_MUTANT_NOT_OWNED ((NTSTATUS)0xC0000046)
#define STATUS_SEMAPHORE_LIMIT_EXCEEDED ((NTSTATUS)0xC0000047)
#define STATUS_OBJECT_NAME_INVALID ((NTSTATUS)0xC0000033)
#define STATUS_OBJECT_NAME_NOT_FOUND ((NTSTATUS)0xC0000034)
#define STATUS_OBJECT_NAME_COLLISION ((NTSTATUS)0xC0000035)
#define STATUS_DELETE_PENDING ((NTSTATUS)0xC0000056)
#define STATUS_REVISION_MISMATCH ((NTSTATUS)0xC0000059)
#define STATUS_PRIVILEGE_NOT_HELD ((NTSTATUS)0xC0000061)
#define STATUS_INTEGER_OVERFLOW ((NTSTATUS)0xC0000095)
#define STATUS_PRIVILEGED_INSTRUCTION ((NTSTATUS)0xC0000096)
#define STATUS_INSUFFICIENT_RESOURCES ((NTSTATUS)0xC000009A)
#define STATUS_DEVICE_DATA_ERROR ((NTSTATUS)0xC000009C)
#define STATUS_DEVICE_NOT_CONNECTED ((NTSTATUS)0xC000009D)
#define STATUS_DEVICE_POWER_FAILURE ((NTSTATUS)0xC000009E)
#define STATUS_FREE_VM_NOT_AT_BASE ((NTSTATUS)0xC000009F)
#define STATUS_DEVICE_NOT_READY ((NTSTATUS)0xC00000A3)
#define STATUS_IO_TIMEOUT ((NTSTATUS)0xC00000B5)
#define STATUS_NOT_SUPPORTED ((NTSTATUS)0xC00000BB)
#define STATUS_DEVICE_DOES_NOT_EXIST ((NTSTATUS)0xC00000C0)
#define STATUS_INTERNAL_ERROR ((NTSTATUS)0xC00000E5)
#define STATUS_INVALID_USER_BUFFER ((NTSTATUS)0xC00000E8)
#define STATUS_INVALID_PARAMETER_1 ((NTSTATUS)0xC00000EF)
#define STATUS_INVALID_PARAMETER_2 ((NTSTATUS)0xC00000F0)
#define STATUS_INVALID_PARAMETER_3 ((NTSTATUS)0xC00000F1)
#define STATUS_INVALID_PARAMETER_4 ((NTSTATUS)0xC00000F2)
#define STATUS_INVALID_PARAMETER_5 ((NTSTATUS)0xC00000F3)
#define STATUS_CANCELLED ((NTSTATUS)0xC0000120)
#define STATUS_DEVICE_CONFIGURATION_ERROR ((NTSTATUS)0xC0000182)
#define STATUS_INVALID_DEVICE_STATE ((NTSTATUS)0xC0000184)
#define STATUS_INVALID_BUFFER_SIZE ((NTSTATUS)0xC0000206)
#define STATUS_NOT_FOUND ((NTSTATUS)0xC0000225)
#define STATUS_RETRY ((NTSTATUS)0xC000022D)
#define STATUS_DEVICE_REMOVED ((NTSTATUS)0xC00002B6)
#define STATUS_DEVICE_UNREACHABLE ((NTSTATUS)0xC0000464)
#define STATUS_DEVICE_INSUFFICIENT_RESOURCES ((NTSTATUS)0xC0000468)
#define STATUS_DEVICE_HUNG ((NTSTATUS)0xC0000507)
#define STATUS_ACPI_INVALID_DATA ((NTSTATUS)0xC014000F)
#define STATUS_MONITOR_NO_DESCRIPTOR ((NTSTATUS)0xC01D0001)
#define STATUS_MONITOR_UNKNOWN_DESCRIPTOR_FORMAT ((NTSTATUS)0xC01D0002)
#define STATUS_MONITOR_INVALID_DESCRIPTOR_CHECKSUM ((NTSTATUS)0xC01D0003)
#define STATUS_MONITOR_INVALID_STANDARD_TIMING_BLOCK ((NTSTATUS)0xC01D0004)
#define STATUS_MONITOR_WMI_DATABLOCK_REGISTRATION_FAILED ((NTSTATUS)0xC01D0005)
#define STATUS_MONITOR_INVALID_SERIAL_NUMBER_MONDSC_BLOCK ((NTSTATUS)0xC01D0006)
#define STATUS_MONITOR_INVALID_USER_FRIENDLY_MONDSC_BLOCK ((NTSTATUS)0xC01D0007)
#define STATUS_MONITOR_NO_MORE_DESCRIPTOR_DATA ((NTSTATUS)0xC01D0008)
#define STATUS_MONITOR_INVALID_DETAILED_TIMING_BLOCK ((NTSTATUS)0xC01D0009)
#define STATUS_MONITOR_INVALID_MANUFACTURE_DATE ((NTSTATUS)0xC01D000A)
#define STATUS_GRAPHICS_NOT_EXCLUSIVE_MODE_OWNER ((NTSTATUS)0xC01E0000)
#define STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER ((NTSTATUS)0xC01E0001)
#define STATUS_GRAPHICS_INVALID_DISPLAY_ADAPTER ((NTSTATUS)0xC01E0002)
#define STATUS_GRAPHICS_ADAPTER_WAS_RESET ((NTSTATUS)0xC01E0003)
#define STATUS_GRAPHICS_INVALID_DRIVER_MODEL ((NTSTATUS)0xC01E0004)
#define STATUS_GRAPHICS_PRESENT_MODE_CHANGED ((NTSTATUS)0xC01E0005)
#define STATUS_GRAPHICS_PRESENT_OCCLUDED ((NTSTATUS)0xC01E0006)
#define STATUS_GRAPHICS_PRESENT_DENIED ((NTSTATUS)0xC01E0007)
#define STATUS_GRAPHICS_CANNOTCOLORCONVERT ((NTSTATUS)0xC01E0008)
#define STATUS_GRAPHICS_DRIVER_MISMATCH ((NTSTATUS)0xC01E0009)
#define STATUS_GRAPHICS_PRESENT_REDIRECTION_DISABLED ((NTSTATUS)0xC01E000B)
#define STATUS_GRAPHICS_PRESENT_UNOCCLUDED ((NTSTATUS)0xC01E000C)
#define STATUS_GRAPHICS_WINDOWDC_NOT_AVAILABLE ((NTSTATUS)0xC01E000D)
#define STATUS_GRAPHICS_WINDOWLESS_PRESENT_DISABLED ((NTSTATUS)0xC01E000E)
#define STATUS_GRAPHICS_PRESENT_INVALID_WINDOW ((NTSTATUS)0xC01E000F)
#define STATUS_GRAPHICS_PRESENT_BUFFER_NOT_BOUND ((NTSTATUS)0xC01E0010)
#define STATUS_GRAPHICS_VAIL_STATE_CHANGED ((NTSTATUS)0xC01E0011)
#define STATUS_GRAPHICS_INDIRECT_DISPLAY_ABANDON_SWAPCHAIN ((NTSTATUS)0xC01E0012)
#define STATUS_GRAPHICS_INDIRECT_DISPLAY_DEVICE_STOPPED ((NTSTATUS)0xC01E0013)
#define STATUS_GRAPHICS_MPO_ALLOCATION_UNPINNED ((NTSTATUS)0xC01E0018)
#define STATUS_GRAPHICS_NO_VIDEO_MEMORY ((NTSTATUS)0xC01E0100)
#define STATUS_GRAPHICS_CANT_LOCK_MEMORY ((NTSTATUS)0xC01E0101)
#define STATUS_GRAPHICS_ALLOCATION_BUSY ((NTSTATUS)0xC01E0102)
#define STATUS_GRAPHICS_TOO_MANY_REFERENCES ((NTSTATUS)0xC01E0103)
#define STATUS_GRAPHICS_TRY_AGAIN_LATER ((NTSTATUS)0xC01E0104)
#define STATUS_GRAPHICS_TRY_AGAIN_NOW ((NTSTATUS)0xC01E0105)
#define STATUS_GRAPHICS_ALLOCATION_INVALID ((NTSTATUS)0xC01E0106)
#define STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNAVAILABLE ((NTSTATUS)0xC01E0107)
#define STATUS_GRAPHICS_UNSWIZZLING_APERTURE_UNSUPPORTED ((NTSTATUS)0xC01E0108)
#define STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION ((NTSTATUS)0xC01E0109)
#define STATUS_GRAPHICS_INVALID_ALLOCATION_USAGE ((NTSTATUS)0xC01E0110)
#define STATUS_GRAPHICS_CANT_RENDER_LOCKED_ALLOCATION ((NTSTATUS)0xC01E0111)
#define STATUS_GRAPHICS_ALLOCATION_CLOSED ((NTSTATUS)0xC01E0112)
#define STATUS_GRAPHICS_INVALID_ALLOCATION_INSTANCE ((NTSTATUS)0xC01E0113)
#define STATUS_GRAPHICS_INVALID_ALLOCATION_HANDLE ((NTSTATUS)0xC01E0114)
#define STATUS_GRAPHICS_WRONG_ALLOCATION_DEVICE ((NTSTATUS)0xC01E0115)
#define STATUS_GRAPHICS_ALLOCATION_CONTENT_LOST ((NTSTATUS)0xC01E0116)
#define STATUS_GRAPHICS_GPU_EXCEPTION_ON_DEVICE ((NTSTATUS)0xC01E0200)
#define STATUS_GRAPHICS_INVALID_VIDPN_TOPOLOGY ((NTSTATUS)0xC01E0300)
#define STATUS_GRAPHICS_VIDPN_TOPOLOGY_NOT_SUPPORTED ((NTSTATUS)0xC01E0301)
#define STATUS_GRAPHICS_VIDPN_TOPOLOGY_CURRENTLY_NOT_SUPPORTED ((NTSTATUS)0xC01E0302)
#define STATUS_GRAPHICS_INVALID_VIDPN ((NTSTATUS)0xC01E0303)
#define STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE ((NTSTATUS)0xC01E0304)
#define STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_TARGET ((NTSTATUS)0xC01E0305)
#define STATUS_GRAPHICS_VIDPN_MODALITY_NOT_SUPPORTED ((NTSTATUS)0xC01E0306)
#define STATUS_GRAPHICS_INVALID_VIDPN_SOURCEMODESET ((NTSTATUS)0xC01E0308)
#define STATUS_GRAPHICS_INVALID_VIDPN_TARGETMODESET ((NTSTATUS)0xC01E0309)
#define STATUS_GRAPHICS_INVALID_FREQUENCY ((NTSTATUS)0xC01E030A)
#define STATUS_GRAPHICS_INVALID_ACTIVE_REGION ((NTSTATUS)0xC01E030B)
#define STATUS_GRAPHICS_INVALID_TOTAL_REGION ((NTSTATUS)0xC01E030C)
#define STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_SOURCE_MODE ((NTSTATUS)0xC01E0310)
#define STATUS_GRAPHICS_INVALID_VIDEO_PRESENT_TARGET_MODE ((NTSTATUS)0xC01E0311)
#define STATUS_GRAPHICS_PINNED_MODE_MUST_REMAIN_IN_SET ((NTSTATUS)0xC01E0312)
#define STATUS_GRAPHICS_PATH_ALREADY_IN_TOPOLOGY ((NTSTATUS)0xC01E0313)
#define STATUS_GRAPHICS_MODE_ALREADY_IN_MODESET ((NTSTATUS)0xC01E0314)
#define STATUS_GRAPHICS_INVALID_VIDEOPRESENTSOURCESET ((NTSTATUS)0xC01E0315)
#define STATUS_GRAPHICS_INVALID_VIDEOPRESENTTARGETSET ((NTSTATUS)0xC01E0316)
#define STATUS_GRAPHICS_SOURCE_ALREADY_IN_SET ((NTSTATUS)0xC01E0317)
#define STATUS_GRAPHICS_TARGET_ALREADY_IN_SET ((NTSTATUS)0xC01E0318)
#define STATUS_GRAPHICS_INVALID_VIDPN_PRESENT_PATH ((NTSTATUS)0xC01E0319)
#define STATUS_GRAPHICS_NO_RECOMMENDED_VIDPN_TOPOLOGY ((NTSTATUS)0xC01E031A)
#define STATUS_GRAPHICS_INVALID_MONITOR_FREQUENCYRANGESET ((NTSTATUS)0xC01E031B)
#define STATUS_GRAPHICS_INVALID_MONITOR_FREQUENCYRANGE ((NTSTATUS)0xC01E031C)
#define STATUS_GRAPHICS_FREQUENCYRANGE_NOT_IN_SET ((NTSTATUS)0xC01E031D)
#define STATUS_GRAPHICS_FREQUENCYRANGE_ALREADY_IN_SET ((NTSTATUS)0xC01E031F)
#define STATUS_GRAPHICS_STALE_MODESET ((NTSTATUS)0xC01E0320)
#define STATUS_GRAPHICS_INVALID_MONITOR_SOURCEMODESET ((NTSTATUS)0xC01E0321)
#define STATUS_GRAPHICS_INVALID_MONITOR_SOURCE_MODE ((NTSTATUS)0xC01E0322)
#define STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN ((NTSTATUS)0xC01E0323)
#define STATUS_GRAPHICS_MODE_ID_MUST_BE_UNIQUE ((NTSTATUS)0xC01E0324)
#define STATUS_GRAPHICS_EMPTY_ADAPTER_MONITOR_MODE_SUPPORT_INTERSECTION ((NTSTATUS)0xC01E0325)
#define STATUS_GRAPHICS_VIDEO_PRESENT_TARGETS_LESS_THAN_SOURCES ((NTSTATUS)0xC01E0326)
#define STATUS_GRAPHICS_PATH_NOT_IN_TOPOLOGY ((NTSTATUS)0xC01E0327)
#define STATUS_GRAPHICS_ADAPTER_MUST_HAVE_AT_LEAST_ONE_SOURCE ((NTSTATUS)0xC01E0328)
#define STATUS_GRAPHICS_ADAPTER_MUST_HAVE_AT_LEAST_ONE_TARGET ((NTSTATUS)0xC01E0329)
#define STATUS_GRAPHICS_INVALID_MONITORDESCRIPTORSET ((NTSTATUS)0xC01E032A)
#define STATUS_GRAPHICS_INVALID_MONITORDESCRIPTOR ((NTSTATUS)0xC01E032B)
#define STATUS_GRAPHICS_MONITORDESCRIPTOR_NOT_IN_SET ((NTSTATUS)0xC01E032C)
#define STATUS_GRAPHICS_MONITORDESCRIPTOR_ALREADY_IN_SET ((NTSTATUS)0xC01E032D)
#define STATUS_GRAPHICS_MONITORDESCRIPTOR_ID_MUST_BE_UNIQUE ((NTSTATUS)0xC01E032E)
#define STATUS_GRAPHICS_INVALID_VIDPN_TARGET_SUBSET_TYPE ((NTSTATUS)0xC01E032F)
#define STATUS_GRAPHICS_RESOURCES_NOT_RELATED ((NTSTATUS)0xC01E0330)
#define STATUS_GRAPHICS_SOURCE_ID_MUST_BE_UNIQUE ((NTSTATUS)0xC01E0331)
#define STATUS_GRAPHICS_TARGET_ID_MUST_BE_UNIQUE ((NTSTATUS)0xC01E0332)
#define STATUS_GRAPHICS_NO_AVAILABLE_VIDPN_TARGET ((NTSTATUS)0xC01E0333)
#define STATUS_GRAPHICS_MONITOR_COULD_NOT_BE_ASSOCIATED_WITH_ADAPTER ((NTSTATUS)0xC01E0334)
#define STATUS_GRAPHICS_NO_VIDPNMGR ((NTSTATUS)0xC01E0335)
#define STATUS_GRAPHICS_NO_ACTIVE_VIDPN ((NTSTATUS)0xC01E0336)
#define STATUS_GRAPHICS_STALE_VIDPN_TOPOLOGY ((NTSTATUS)0xC01E0337)
#define STATUS_GRAPHICS_MONITOR_NOT_CONNECTED ((NTSTATUS)0xC01E0338)
#define STATUS_GRAPHICS_SOURCE_NOT_IN_TOPOLOGY ((NTSTATUS)0xC01E0339)
#define STATUS_GRAPHICS_INVALID_PRIMARYSURFACE_SIZE ((NTSTATUS)0xC01E033A)
#define STATUS_GRAPHICS_INVALID_VISIBLEREGION_SIZE ((NTSTATUS)0xC01E033B)
#define STATUS_GRAPHICS_INVALID_STRIDE ((NTSTATUS)0xC01E033C)
#define STATUS_GRAPHICS_INVALID_PIXELFORMAT ((NTSTATUS)0xC01E033D)
#define STATUS_GRAPHICS_INVALID_COLORBASIS ((NTSTATUS)0xC01E033E)
#define STATUS_GRAPHICS_INVALID_PIXELVALUEACCESSMODE ((NTSTATUS)0xC01E033F)
#define STATUS_GRAPHICS_TARGET_NOT_IN_TOPOLOGY ((NTSTATUS)0xC01E0340)
#define STATUS_GRAPHICS_NO_DISPLAY_MODE_MANAGEMENT_SUPPORT ((NTSTATUS)0xC01E0341)
#define STATUS_GRAPHICS_VIDPN_SOURCE_IN_USE ((NTSTATUS)0xC01E0342)
#define STATUS_GRAPHICS_CANT_ACCESS_ACTIVE_VIDPN ((NTSTATUS)0xC01E0343)
#define STATUS_GRAPHICS_INVALID_PATH_IMPORTANCE_ORDINAL ((NTSTATUS)0xC01E0344)
#define STATUS_GRAPHICS_INVALID_PATH_CONTENT_GEOMETRY_TRANSFORMATION ((NTSTATUS)0xC01E0345)
#define STATUS_GRAPHICS_PATH_CONTENT_GEOMETRY_TRANSFORMATION_NOT_SUPPORTED ((NTSTATUS)0xC01E0346)
#define STATUS_GRAPHICS_INVALID_GAMMA_RAMP ((NTSTATUS)0xC01E0347)
#define STATUS_GRAPHICS_GAMMA_RAMP_NOT_SUPPORTED ((NTSTATUS)0xC01E0348)
#define STATUS_GRAPHICS_MULTISAMPLING_NOT_SUPPORTED ((NTSTATUS)0xC01E0349)
#define STATUS_GRAPHICS_MODE_NOT_IN_MODESET ((NTSTATUS)0xC01E034A)
#define STATUS_GRAPHICS_INVALID_VIDPN_TOPOLOGY_RECOMMENDATION_REASON ((NTSTATUS)0xC01E034D)
#define STATUS_GRAPHICS_INVALID_PATH_CONTENT_TYPE ((NTSTATUS)0xC01E034E)
#define STATUS_GRAPHICS_INVALID_COPYPROTECTION_TYPE ((NTSTATUS)0xC01E034F)
#define STATUS_GRAPHICS_UNASSIGNED_MODESET_ALREADY_EXISTS ((NTSTATUS)0xC01E0350)
#define STATUS_GRAPHICS_INVALID_SCANLINE_ORDERING ((NTSTATUS)0xC01E0352)
#define STATUS_GRAPHICS_TOPOLOGY_CHANGES_NOT_ALLOWED ((NTSTATUS)0xC01E0353)
#define STATUS_GRAPHICS_NO_AVAILABLE_IMPORTANCE_ORDINALS ((NTSTATUS)0xC01E0354)
#define STATUS_GRAPHICS_INCOMPATIBLE_PRIVATE_FORMAT ((NTSTATUS)0xC01E0355)
#define STATUS_GRAPHICS_INVALID_MODE_PRUNING_ALGORITHM ((NTSTATUS)0xC01E0356)
#define STATUS_GRAPHICS_INVALID_MONITOR_CAPABILITY_ORIGIN ((NTSTATUS)0xC01E0357)
#define STATUS_GRAPHICS_INVALID_MONITOR_FREQUENCYRANGE_CONSTRAINT ((NTSTATUS)0xC01E0358)
#define STATUS_GRAPHICS_MAX_NUM_PATHS_REACHED ((NTSTATUS)0xC01E0359)
#define STATUS_GRAPHICS_CANCEL_VIDPN_TOPOLOGY_AUGMENTATION ((NTSTATUS)0xC01E035A)
#define STATUS_GRAPHICS_INVALID_CLIENT_TYPE ((NTSTATUS)0xC01E035B)
#define STATUS_GRAPHICS_CLIENTVIDPN_NOT_SET ((NTSTATUS)0xC01E035C)
#define STATUS_GRAPHICS_SPECIFIED_CHILD_ALREADY_CONNECTED ((NTSTATUS)0xC01E0400)
#define STATUS_GRAPHICS_CHILD_DESCRIPTOR_NOT_SUPPORTED ((NTSTATUS)0xC01E0401)
#define STATUS_GRAPHICS_NOT_A_LINKED_ADAPTER ((NTSTATUS)0xC01E0430)
#define STATUS_GRAPHICS_LEADLINK_NOT_ENUMERATED ((NTSTATUS)0xC01E0431)
#define STATUS_GRAPHICS_CHAINLINKS_NOT_ENUMERATED ((NTSTATUS)0xC01E0432)
#define STATUS_GRAPHICS_ADAPTER_CHAIN_NOT_READY ((NTSTATUS)0xC01E0433)
#define STATUS_GRAPHICS_CHAINLINKS_NOT_STARTED ((NTSTATUS)0xC01E0434)
#define STATUS_GRAPHICS_CHAINLINKS_NOT_POWERED_ON ((NTSTATUS)0xC01E0435)
#define STATUS_GRAPHICS_INCONSISTENT_DEVICE_LINK_STATE ((NTSTATUS)0xC01E0436)
#define STATUS_GRAPHICS_NOT_POST_DEVICE_DRIVER ((NTSTATUS)0xC01E0438)
#define STATUS_GRAPHICS_ADAPTER_ACCESS_NOT_EXCLUDED ((NTSTATUS)0xC01E043B)
#define STATUS_GRAPHICS_OPM_NOT_SUPPORTED ((NTSTATUS)0xC01E0500)
#define STATUS_GRAPHICS_COPP_NOT_SUPPORTED ((NTSTATUS)0xC01E0501)
#define STATUS_GRAPHICS_UAB_NOT_SUPPORTED ((NTSTATUS)0xC01E0502)
#define STATUS_GRAPHICS_OPM_INVALID_ENCRYPTED_PARAMETERS ((NTSTATUS)0xC01E0503)
#define STATUS_GRAPHICS_OPM_NO_PROTECTED_OUTPUTS_EXIST ((NTSTATUS)0xC01E0505)
#define STATUS_GRAPHICS_OPM_INTERNAL_ERROR ((NTSTATUS)0xC01E050B)
#define STATUS_GRAPHICS_OPM_INVALID_HANDLE ((NTSTATUS)0xC01E050C)
#define STATUS_GRAPHICS_PVP_INVALID_CERTIFICATE_LENGTH ((NTSTATUS)0xC01E050E)
#define STATUS_GRAPHICS_OPM_SPANNING_MODE_ENABLED ((NTSTATUS)0xC01E050F)
#define STATUS_GRAPHICS_OPM_THEATER_MODE_ENABLED ((NTSTATUS)0xC01E0510)
#define STATUS_GRAPHICS_PVP_HFS_FAILED ((NTSTATUS)0xC01E0511)
#define STATUS_GRAPHICS_OPM_INVALID_SRM ((NTSTATUS)0xC01E0512)
#define STATUS_GRAPHICS_OPM_OUTPUT_DOES_NOT_SUPPORT_HDCP ((NTSTATUS)0xC01E0513)
#define STATUS_GRAPHICS_OPM_OUTPUT_DOES_NOT_SUPPORT_ACP ((NTSTATUS)0xC01E0514)
#define STATUS_GRAPHICS_OPM_OUTPUT_DOES_NOT_SUPPORT_CGMSA ((NTSTATUS)0xC01E0515)
#define STATUS_GRAPHICS_OPM_HDCP_SRM_NEVER_SET ((NTSTATUS)0xC01E0516)
#define STATUS_GRAPHICS_OPM_RESOLUTION_TOO_HIGH ((NTSTATUS)0xC01E0517)
#define STATUS_GRAPHICS_OPM_ALL_HDCP_HARDWARE_ALREADY_IN_USE ((NTSTATUS)0xC01E0518)
#define STATUS_GRAPHICS_OPM_PROTECTED_OUTPUT_NO_LONGER_EXISTS ((NTSTATUS)0xC01E051A)
#define STATUS_GRAPHICS_OPM_PROTECTED_OUTPUT_DOES_NOT_HAVE_COPP_SEMANTICS ((NTSTATUS)0xC01E051C)
#define STATUS_GRAPHICS_OPM_INVALID_INFORMATION_REQUEST ((NTSTATUS)0xC01E051D)
#define STATUS_GRAPHICS_OPM_DRIVER_INTERNAL_ERROR ((NTSTATUS)0xC01E051E)
#define STATUS_GRAPHICS_OPM_PROTECTED_OUTPUT_DOES_NOT_HAVE_OPM_SEMANTICS ((NTSTATUS)0xC01E051F)
#define STATUS_GRAPHICS_OPM_SIGNALING_NOT_SUPPORTED ((NTSTATUS)0xC01E0520)
#define STATUS_GRAPHICS_OPM_INVALID_CONFIGURATION_REQUEST ((NTSTATUS)0xC01E0521)
#define STATUS_GRAPHICS_I2C_NOT_SUPPORTED ((NTSTATUS)0xC01E0580)
#define STATUS_GRAPHICS_I2C_DEVICE_DOES_NOT_EXIST ((NTSTATUS)0xC01E0581)
#define STATUS_GRAPHICS_I2C_ERROR_TRANSMITTING_DATA ((NTSTATUS)0xC01E0582)
#define STATUS_GRAPHICS_I2C_ERROR_RECEIVING_DATA ((NTSTATUS)0xC01E0583)
#define STATUS_GRAPHICS_DDCCI_VCP_NOT_SUPPORTED ((NTSTATUS)0xC01E0584)
#define STATUS_GRAPHICS_DDCCI_INVALID_DATA ((NTSTATUS)0xC01E0585)
#define STATUS_GRAPHICS_DDCCI_MONITOR_RETURNED_INVALID_TIMING_STATUS_BYTE ((NTSTATUS)0xC01E0586)
#define STATUS_GRAPHICS_DDCCI_INVALID_CAPABILITIES_STRING ((NTSTATUS)0xC01E0587)
#define STATUS_GRAPHICS_MCA_INTERNAL_ERROR ((NTSTATUS)0xC01E0588)
#define STATUS_GRAPHICS_DDCCI_INVALID_MESSAGE_COMMAND ((NTSTATUS)0xC01E0589)
#define STATUS_GRAPHICS_DDCCI_INVALID_MESSAGE_LENGTH ((NTSTATUS)0xC01E058A)
#define STATUS_GRAPHICS_DDCCI_INVALID_MESSAGE_CHECKSUM ((NTSTATUS)0xC01E058B)
#define STATUS_GRAPHICS_INVALID_PHYSICAL_MONITOR_HANDLE ((NTSTATUS)0xC01E058C)
#define STATUS_GRAPHICS_MONITOR_NO_LONGER_EXISTS ((NTSTATUS)0xC01E058D)
#define STATUS_GRAPHICS_ONLY_CONSOLE_SESSION_SUPPORTED ((NTSTATUS)0xC01E05E0)
#define STATUS_GRAPHICS_NO_DISPLAY_DEVICE_CORRESPONDS_TO_NAME ((NTSTATUS)0xC01E05E1)
#define STATUS_GRAPHICS_DISPLAY_DEVICE_NOT_ATTACHED_TO_DESKTOP ((NTSTATUS)0xC01E05E2)
#define STATUS_GRAPHICS_MIRRORING_DEVICES_NOT_SUPPORTED ((NTSTATUS)0xC01E05E3)
#define STATUS_GRAPHICS_INVALID_POINTER ((NTSTATUS)0xC01E05E4)
#define STATUS_GRAPHICS_NO_MONITORS_CORRESPOND_TO_DISPLAY_DEVICE ((NTSTATUS)0xC01E05E5)
#define STATUS_GRAPHICS_PARAMETER_ARRAY_TOO_SMALL ((NTSTATUS)0xC01E05E6)
#define STATUS_GRAPHICS_INTERNAL_ERROR ((NTSTATUS)0xC01E05E7)
#define STATUS_GRAPHICS_SESSION_TYPE_CHANGE_IN_PROGRESS ((NTSTATUS)0xC01E05E8)

/* Integers of 64 bits, identifiers, strings, lists */

__extension__ typedef union _LARGE_INTEGER {
    struct {
        ULONG LowPart;
        LONG HighPart;
    };
    struct {
        ULONG LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

__extension__ typedef union _ULARGE_INTEGER {
    struct {
        ULONG LowPart;
        ULONG HighPart;
    };
    struct {
        ULONG LowPart;
        ULONG HighPart;
    } u;
    ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;

typedef LARGE_INTEGER PHYSICAL_ADDRESS, *PPHYSICAL_ADDRESS;

typedef struct _LUID {
    ULONG LowPart;
    LONG HighPart;
} LUID, *PLUID;

typedef struct _GUID {
    ULONG Data1;
    USHORT Data2;
    USHORT Data3;
    UCHAR Data4[8];
} GUID, *PGUID, *LPGUID;
typedef const GUID *LPCGUID;
#ifdef __cplusplus
typedef const GUID &REFGUID;
#else
typedef const GUID *REFGUID;
#endif

#ifdef __cplusplus
#define IsEqualGUID(a, b) (__builtin_memcmp(&(a), &(b), sizeof(GUID)) == 0)
#else
#define IsEqualGUID(a, b) (__builtin_memcmp((a), (b), sizeof(GUID)) == 0)
#endif

/*
 * A file that defines INITGUID before it includes this header defines the identifiers. Several files
 * of a driver may.
 */
#define DECLSPEC_SELECTANY __attribute__((weak))
#define TIDEGATE_DEFINE_GUID(name, a, b, c, d, e, f, g, h, i, j, k) \
    EXTERN_C const GUID DECLSPEC_SELECTANY name; \
    const GUID name = {a, b, c, {d, e, f, g, h, i, j, k}}
#ifdef INITGUID
#define DEFINE_GUID TIDEGATE_DEFINE_GUID
#else
#define DEFINE_GUID(name, a, b, c, d, e, f, g, h, i, j, k) EXTERN_C const GUID name
#endif

/* Lengths are in bytes, without the terminating zero. */
typedef struct _UNICODE_STRING {
    USHORT Length;
    USHORT MaximumLength;
    PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;

typedef struct _STRING {
    USHORT Length;
    USHORT MaximumLength;
    PCHAR Buffer;
} STRING, *PSTRING, ANSI_STRING, *PANSI_STRING;
typedef const STRING *PCANSI_STRING;

#define RTL_CONSTANT_STRING(text) {sizeof(text) - sizeof((text)[0]), sizeof(text), (text)}
#define DECLARE_CONST_UNICODE_STRING(name, text) \
    static const WCHAR name##_buffer[] = text; \
    const UNICODE_STRING name = { \
        sizeof(text) - sizeof(WCHAR), sizeof(text), (PWSTR)(ULONG_PTR)name##_buffer}

typedef struct _LIST_ENTRY {
    struct _LIST_ENTRY *Flink;
    struct _LIST_ENTRY *Blink;
} LIST_ENTRY, *PLIST_ENTRY;

typedef struct _SINGLE_LIST_ENTRY {
    struct _SINGLE_LIST_ENTRY *Next;
} SINGLE_LIST_ENTRY, *PSINGLE_LIST_ENTRY;

FORCEINLINE VOID InitializeListHead(PLIST_ENTRY ListHead) {
    ListHead->Flink = ListHead;
    ListHead->Blink = ListHead;
}

FORCEINLINE BOOLEAN IsListEmpty(const LIST_ENTRY *ListHead) {
    return ListHead->Flink == ListHead;
}

FORCEINLINE VOID InsertHeadList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry) {
    PLIST_ENTRY next = ListHead->Flink;
    Entry->Flink = next;
    Entry->Blink = ListHead;
    next->Blink = Entry;
    ListHead->Flink = Entry;
}

FORCEINLINE VOID InsertTailList(PLIST_ENTRY ListHead, PLIST_ENTRY Entry) {
    InsertHeadList(ListHead->Blink, Entry);
}

/* TRUE: the list is empty now. */
FORCEINLINE BOOLEAN RemoveEntryList(PLIST_ENTRY Entry) {
    PLIST_ENTRY next = Entry->Flink;
    PLIST_ENTRY previous = Entry->Blink;
    previous->Flink = next;
    next->Blink = previous;
    return next == previous;
}

/* Returns the head itself if the list is empty. */
FORCEINLINE PLIST_ENTRY RemoveHeadList(PLIST_ENTRY ListHead) {
    PLIST_ENTRY entry = ListHead->Flink;
    (void)RemoveEntryList(entry);
    return entry;
}

FORCEINLINE PLIST_ENTRY RemoveTailList(PLIST_ENTRY ListHead) {
    PLIST_ENTRY entry = ListHead->Blink;
    (void)RemoveEntryList(entry);
    return entry;
}

FORCEINLINE VOID AppendTailList(PLIST_ENTRY ListHead, PLIST_ENTRY ListToAppend) {
    PLIST_ENTRY tail = ListHead->Blink;
    ListHead->Blink->Flink = ListToAppend;
    ListHead->Blink = ListToAppend->Blink;
    ListToAppend->Blink->Flink = ListHead;
    ListToAppend->Blink = tail;
}

FORCEINLINE VOID PushEntryList(PSINGLE_LIST_ENTRY ListHead, PSINGLE_LIST_ENTRY Entry) {
    Entry->Next = ListHead->Next;
    ListHead->Next = Entry;
}

FORCEINLINE PSINGLE_LIST_ENTRY PopEntryList(PSINGLE_LIST_ENTRY ListHead) {
    PSINGLE_LIST_ENTRY entry = ListHead->Next;
    if (entry != NULL) {
        ListHead->Next = entry->Next;
    }
    return entry;
}

/* Objects of the kernel */

typedef struct _DRIVER_OBJECT DRIVER_OBJECT, *PDRIVER_OBJECT;
typedef struct _DEVICE_OBJECT DEVICE_OBJECT, *PDEVICE_OBJECT;
typedef struct _FILE_OBJECT FILE_OBJECT, *PFILE_OBJECT;
typedef struct _KTHREAD *PKTHREAD, *PRKTHREAD;
typedef struct _KTHREAD *PETHREAD;
typedef struct _EPROCESS *PEPROCESS, *PRKPROCESS;
typedef struct _KINTERRUPT *PKINTERRUPT;
typedef struct _KWAIT_BLOCK *PKWAIT_BLOCK;
typedef struct _IO_WORKITEM *PIO_WORKITEM;
typedef struct _EX_TIMER *PEX_TIMER;
typedef struct _OBJECT_TYPE *POBJECT_TYPE;
extern POBJECT_TYPE *PsThreadType;
typedef struct _OBJECT_HANDLE_INFORMATION *POBJECT_HANDLE_INFORMATION;

/* The page frame numbers are after the structure: see MmGetMdlPfnArray. */
typedef struct _MDL {
    struct _MDL *Next;
    CSHORT Size;
    CSHORT MdlFlags;
    struct _EPROCESS *Process;
    PVOID MappedSystemVa;
    PVOID StartVa;
    ULONG ByteCount;
    ULONG ByteOffset;
} MDL, *PMDL, *PMDLX;

/* Derived. */
#define MDL_MAPPED_TO_SYSTEM_VA 0x0001
#define MDL_PAGES_LOCKED 0x0002
#define MDL_SOURCE_IS_NONPAGED_POOL 0x0004

typedef struct _KEVENT {
    ULONG_PTR Opaque[8];
} KEVENT, *PKEVENT, *PRKEVENT;
typedef struct _KSEMAPHORE {
    ULONG_PTR Opaque[8];
} KSEMAPHORE, *PKSEMAPHORE, *PRKSEMAPHORE;
typedef struct _KMUTANT {
    ULONG_PTR Opaque[8];
} KMUTEX, *PKMUTEX, *PRKMUTEX;
typedef struct _FAST_MUTEX {
    ULONG_PTR Opaque[8];
} FAST_MUTEX, *PFAST_MUTEX;
typedef struct _KGUARDED_MUTEX {
    ULONG_PTR Opaque[8];
} KGUARDED_MUTEX, *PKGUARDED_MUTEX;
typedef struct _ERESOURCE {
    ULONG_PTR Opaque[16];
} ERESOURCE, *PERESOURCE;
typedef struct _EX_PUSH_LOCK {
    ULONG_PTR Opaque[1];
} EX_PUSH_LOCK, *PEX_PUSH_LOCK;
typedef struct _KTIMER {
    ULONG_PTR Opaque[16];
} KTIMER, *PKTIMER;
typedef struct _KDPC {
    ULONG_PTR Opaque[16];
} KDPC, *PKDPC, *PRKDPC;
typedef struct _KLOCK_QUEUE_HANDLE {
    ULONG_PTR Opaque[4];
} KLOCK_QUEUE_HANDLE, *PKLOCK_QUEUE_HANDLE;
typedef struct _KAPC_STATE {
    ULONG_PTR Opaque[8];
} KAPC_STATE, *PKAPC_STATE;
typedef struct _NPAGED_LOOKASIDE_LIST {
    ULONG_PTR Opaque[32];
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST;
typedef struct _PAGED_LOOKASIDE_LIST {
    ULONG_PTR Opaque[32];
} PAGED_LOOKASIDE_LIST, *PPAGED_LOOKASIDE_LIST;

typedef struct _LOOKASIDE_LIST_EX {
    ULONG_PTR Opaque[32];
} LOOKASIDE_LIST_EX, *PLOOKASIDE_LIST_EX;

/* A list of single links without a lock. The head has a lock of ours. */
typedef struct _SINGLE_LIST_ENTRY SLIST_ENTRY, *PSLIST_ENTRY;
typedef struct DECLSPEC_ALIGN(16) _SLIST_HEADER {
    PSLIST_ENTRY Next;
    USHORT Depth;
    USHORT Sequence;
    ULONG Lock;
} SLIST_HEADER, *PSLIST_HEADER;

typedef struct _RTL_BITMAP {
    ULONG SizeOfBitMap;
    PULONG Buffer;
} RTL_BITMAP, *PRTL_BITMAP;

typedef struct _CLIENT_ID {
    HANDLE UniqueProcess;
    HANDLE UniqueThread;
} CLIENT_ID, *PCLIENT_ID;

typedef struct _PROCESSOR_NUMBER {
    USHORT Group;
    UCHAR Number;
    UCHAR Reserved;
} PROCESSOR_NUMBER, *PPROCESSOR_NUMBER;

typedef struct _OBJECT_ATTRIBUTES {
    ULONG Length;
    HANDLE RootDirectory;
    PUNICODE_STRING ObjectName;
    ULONG Attributes;
    PVOID SecurityDescriptor;
    PVOID SecurityQualityOfService;
} OBJECT_ATTRIBUTES, *POBJECT_ATTRIBUTES;

#define OBJ_INHERIT 0x2
#define OBJ_CASE_INSENSITIVE 0x40
#define OBJ_KERNEL_HANDLE 0x200

FORCEINLINE VOID InitializeObjectAttributes(
    POBJECT_ATTRIBUTES InitializedAttributes, PUNICODE_STRING ObjectName, ULONG Attributes,
    HANDLE RootDirectory, PVOID SecurityDescriptor) {
    InitializedAttributes->Length = sizeof(OBJECT_ATTRIBUTES);
    InitializedAttributes->RootDirectory = RootDirectory;
    InitializedAttributes->ObjectName = ObjectName;
    InitializedAttributes->Attributes = Attributes;
    InitializedAttributes->SecurityDescriptor = SecurityDescriptor;
    InitializedAttributes->SecurityQualityOfService = NULL;
}

/* Interrupt request levels. Device interrupts are between DISPATCH and CLOCK. Derived. */

#define PASSIVE_LEVEL 0
#define LOW_LEVEL 0
#define APC_LEVEL 1
#define DISPATCH_LEVEL 2
#define CLOCK_LEVEL 13
#define IPI_LEVEL 14
#define PROFILE_LEVEL 15
#define HIGH_LEVEL 15

/* Enumerations */

typedef enum _EVENT_TYPE { NotificationEvent = 0, SynchronizationEvent = 1 } EVENT_TYPE;
typedef enum _TIMER_TYPE { NotificationTimer = 0, SynchronizationTimer = 1 } TIMER_TYPE;
typedef enum _WAIT_TYPE { WaitAll = 0, WaitAny = 1 } WAIT_TYPE;
typedef enum _MODE { KernelMode = 0, UserMode = 1 } MODE;
typedef CCHAR KPROCESSOR_MODE;
typedef enum _KWAIT_REASON { Executive = 0, UserRequest = 6 } KWAIT_REASON;

typedef enum _POOL_TYPE {
    NonPagedPool = 0,
    NonPagedPoolExecute = 0,
    PagedPool = 1,
    NonPagedPoolNx = 512
} POOL_TYPE;

#define POOL_FLAG_USE_QUOTA 0x1ull
#define POOL_FLAG_UNINITIALIZED 0x2ull
#define POOL_FLAG_SESSION 0x4ull
#define POOL_FLAG_CACHE_ALIGNED 0x8ull
#define POOL_FLAG_RAISE_ON_FAILURE 0x20ull
#define POOL_FLAG_NON_PAGED 0x40ull
#define POOL_FLAG_NON_PAGED_EXECUTE 0x80ull
#define POOL_FLAG_PAGED 0x100ull

typedef enum _MEMORY_CACHING_TYPE {
    MmNonCached = 0,
    MmCached = 1,
    MmWriteCombined = 2,
    MmHardwareCoherentCached = 3,
    MmNonCachedUnordered = 4,
    MmUSWCCached = 5
} MEMORY_CACHING_TYPE;

typedef enum _MM_PAGE_PRIORITY {
    LowPagePriority = 0,
    NormalPagePriority = 16,
    HighPagePriority = 32
} MM_PAGE_PRIORITY;
#define MdlMappingNoWrite 0x80000000u /* derived */
#define MdlMappingNoExecute 0x40000000u /* derived */

typedef enum _LOCK_OPERATION {
    IoReadAccess = 0,
    IoWriteAccess = 1,
    IoModifyAccess = 2
} LOCK_OPERATION;
typedef enum _WORK_QUEUE_TYPE {
    CriticalWorkQueue = 0,
    DelayedWorkQueue = 1,
    HyperCriticalWorkQueue = 2
} WORK_QUEUE_TYPE;

typedef enum _DEVICE_POWER_STATE {
    PowerDeviceUnspecified = 0,
    PowerDeviceD0 = 1,
    PowerDeviceD1 = 2,
    PowerDeviceD2 = 3,
    PowerDeviceD3 = 4,
    PowerDeviceMaximum = 5
} DEVICE_POWER_STATE, *PDEVICE_POWER_STATE;

typedef enum _SYSTEM_POWER_STATE {
    PowerSystemUnspecified = 0,
    PowerSystemWorking = 1,
    PowerSystemSleeping1 = 2,
    PowerSystemSleeping2 = 3,
    PowerSystemSleeping3 = 4,
    PowerSystemHibernate = 5,
    PowerSystemShutdown = 6,
    PowerSystemMaximum = 7
} SYSTEM_POWER_STATE, *PSYSTEM_POWER_STATE;

/* Numbers are derived from the order of the names. */
typedef enum _POWER_ACTION {
    PowerActionNone = 0,
    PowerActionReserved = 1,
    PowerActionSleep = 2,
    PowerActionHibernate = 3,
    PowerActionShutdown = 4,
    PowerActionShutdownReset = 5,
    PowerActionShutdownOff = 6,
    PowerActionWarmEject = 7,
    PowerActionDisplayOff = 8
} POWER_ACTION, *PPOWER_ACTION;

/* Numbers are derived. */
typedef enum _INTERFACE_TYPE {
    InterfaceTypeUndefined = -1,
    Internal = 0,
    Isa = 1,
    Eisa = 2,
    MicroChannel = 3,
    TurboChannel = 4,
    PCIBus = 5
} INTERFACE_TYPE, *PINTERFACE_TYPE;

/* Numbers are derived. */
typedef enum _KEY_VALUE_INFORMATION_CLASS {
    KeyValueBasicInformation = 0,
    KeyValueFullInformation = 1,
    KeyValuePartialInformation = 2
} KEY_VALUE_INFORMATION_CLASS;

typedef struct _KEY_VALUE_BASIC_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG NameLength;
    WCHAR Name[1];
} KEY_VALUE_BASIC_INFORMATION, *PKEY_VALUE_BASIC_INFORMATION;

typedef struct _KEY_VALUE_FULL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataOffset;
    ULONG DataLength;
    ULONG NameLength;
    WCHAR Name[1];
} KEY_VALUE_FULL_INFORMATION, *PKEY_VALUE_FULL_INFORMATION;

typedef struct _KEY_VALUE_PARTIAL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataLength;
    UCHAR Data[1];
} KEY_VALUE_PARTIAL_INFORMATION, *PKEY_VALUE_PARTIAL_INFORMATION;

#define REG_NONE 0
#define REG_SZ 1
#define REG_EXPAND_SZ 2
#define REG_BINARY 3
#define REG_DWORD 4
#define REG_MULTI_SZ 7
#define REG_QWORD 11
#define REG_OPTION_NON_VOLATILE 0
#define REG_OPTION_VOLATILE 1

#define KEY_QUERY_VALUE 0x1
#define KEY_SET_VALUE 0x2
#define KEY_READ 0x20019
#define KEY_WRITE 0x20006
#define KEY_ALL_ACCESS 0xF003F
#define SYNCHRONIZE 0x100000
#define GENERIC_ALL 0x10000000
#define GENERIC_WRITE 0x40000000
#define GENERIC_READ 0x80000000u
#define THREAD_ALL_ACCESS 0x1FFFFF
#define PLUGPLAY_REGKEY_DEVICE 1
#define PLUGPLAY_REGKEY_DRIVER 2

/* Numbers are derived. */
typedef enum _DEVICE_REGISTRY_PROPERTY {
    DevicePropertyDeviceDescription = 0,
    DevicePropertyHardwareID = 1,
    DevicePropertyBusNumber = 14,
    DevicePropertyAddress = 16
} DEVICE_REGISTRY_PROPERTY;

#define PAGE_NOACCESS 0x1
#define PAGE_READONLY 0x2
#define PAGE_READWRITE 0x4
#define PAGE_EXECUTE 0x10
#define PAGE_EXECUTE_READ 0x20
#define PAGE_EXECUTE_READWRITE 0x40
#define PAGE_NOCACHE 0x200
#define PAGE_WRITECOMBINE 0x400

#define IO_NO_INCREMENT 0
#define LOW_REALTIME_PRIORITY 16
#define HIGH_PRIORITY 31

/* Numbers of DPFLTR_x are derived. */
#define DPFLTR_IHVVIDEO_ID 78
#define DPFLTR_IHVDRIVER_ID 77
#define DPFLTR_DEFAULT_ID 101
#define DPFLTR_ERROR_LEVEL 0
#define DPFLTR_WARNING_LEVEL 1
#define DPFLTR_TRACE_LEVEL 2
#define DPFLTR_INFO_LEVEL 3

/* Routines of the driver that the kernel calls */

typedef NTSTATUS DRIVER_INITIALIZE(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath);
typedef DRIVER_INITIALIZE *PDRIVER_INITIALIZE;
typedef VOID DRIVER_UNLOAD(PDRIVER_OBJECT DriverObject);
typedef DRIVER_UNLOAD *PDRIVER_UNLOAD;
typedef VOID KDEFERRED_ROUTINE(
    struct _KDPC *Dpc, PVOID DeferredContext, PVOID SystemArgument1, PVOID SystemArgument2);
typedef KDEFERRED_ROUTINE *PKDEFERRED_ROUTINE;
typedef VOID KSTART_ROUTINE(PVOID StartContext);
typedef KSTART_ROUTINE *PKSTART_ROUTINE;
typedef BOOLEAN KSYNCHRONIZE_ROUTINE(PVOID SynchronizeContext);
typedef KSYNCHRONIZE_ROUTINE *PKSYNCHRONIZE_ROUTINE;
typedef VOID IO_WORKITEM_ROUTINE(PDEVICE_OBJECT DeviceObject, PVOID Context);
typedef IO_WORKITEM_ROUTINE *PIO_WORKITEM_ROUTINE;
typedef VOID WORKER_THREAD_ROUTINE(PVOID Parameter);
typedef WORKER_THREAD_ROUTINE *PWORKER_THREAD_ROUTINE;
typedef struct _WORK_QUEUE_ITEM {
    LIST_ENTRY List;
    PWORKER_THREAD_ROUTINE WorkerRoutine;
    PVOID Parameter;
} WORK_QUEUE_ITEM, *PWORK_QUEUE_ITEM;
typedef VOID IO_WORKITEM_ROUTINE_EX(PVOID IoObject, PVOID Context, PIO_WORKITEM IoWorkItem);
typedef IO_WORKITEM_ROUTINE_EX *PIO_WORKITEM_ROUTINE_EX;
typedef PVOID ALLOCATE_FUNCTION(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
typedef ALLOCATE_FUNCTION *PALLOCATE_FUNCTION;
typedef VOID FREE_FUNCTION(PVOID Buffer);
typedef FREE_FUNCTION *PFREE_FUNCTION;
typedef VOID EXT_CALLBACK(PEX_TIMER Timer, PVOID Context);
typedef EXT_CALLBACK *PEXT_CALLBACK;
typedef NTSTATUS RTL_QUERY_REGISTRY_ROUTINE(
    PWSTR ValueName, ULONG ValueType, PVOID ValueData, ULONG ValueLength, PVOID Context,
    PVOID EntryContext);
typedef RTL_QUERY_REGISTRY_ROUTINE *PRTL_QUERY_REGISTRY_ROUTINE;
typedef VOID INTERFACE_REFERENCE(PVOID Context);
typedef INTERFACE_REFERENCE *PINTERFACE_REFERENCE;
typedef VOID INTERFACE_DEREFERENCE(PVOID Context);
typedef INTERFACE_DEREFERENCE *PINTERFACE_DEREFERENCE;

typedef struct _RTL_QUERY_REGISTRY_TABLE {
    PRTL_QUERY_REGISTRY_ROUTINE QueryRoutine;
    ULONG Flags;
    PWSTR Name;
    PVOID EntryContext;
    ULONG DefaultType;
    PVOID DefaultData;
    ULONG DefaultLength;
} RTL_QUERY_REGISTRY_TABLE, *PRTL_QUERY_REGISTRY_TABLE;

#define RTL_REGISTRY_ABSOLUTE 0
#define RTL_REGISTRY_SERVICES 1
#define RTL_REGISTRY_HANDLE 0x40000000
#define RTL_QUERY_REGISTRY_SUBKEY 0x1
#define RTL_QUERY_REGISTRY_TOPKEY 0x2
#define RTL_QUERY_REGISTRY_REQUIRED 0x4
#define RTL_QUERY_REGISTRY_NOVALUE 0x8
#define RTL_QUERY_REGISTRY_NOEXPAND 0x10
#define RTL_QUERY_REGISTRY_DIRECT 0x20
#define RTL_QUERY_REGISTRY_TYPECHECK 0x100
#define RTL_QUERY_REGISTRY_TYPECHECK_SHIFT 24

typedef struct _INTERFACE {
    USHORT Size;
    USHORT Version;
    PVOID Context;
    PINTERFACE_REFERENCE InterfaceReference;
    PINTERFACE_DEREFERENCE InterfaceDereference;
} INTERFACE, *PINTERFACE;

/* Resources of a device. The packing of the descriptor is derived. */

#define CmResourceTypeNull 0
#define CmResourceTypePort 1
#define CmResourceTypeInterrupt 2
#define CmResourceTypeMemory 3
#define CmResourceTypeDma 4
#define CmResourceTypeDeviceSpecific 5
#define CmResourceTypeBusNumber 6
#define CmResourceTypeMemoryLarge 7
#define CM_RESOURCE_INTERRUPT_LEVEL_SENSITIVE 0
#define CM_RESOURCE_INTERRUPT_LATCHED 1
#define CM_RESOURCE_INTERRUPT_MESSAGE 2
#define CM_RESOURCE_MEMORY_READ_WRITE 0
#define CM_RESOURCE_MEMORY_PREFETCHABLE 4
/* Of CmResourceTypeMemoryLarge: the length is in units of 256 bytes, 64 KiB or 4 GiB. */
#define CM_RESOURCE_MEMORY_LARGE_40 0x200
#define CM_RESOURCE_MEMORY_LARGE_48 0x400
#define CM_RESOURCE_MEMORY_LARGE_64 0x800

#pragma pack(push, 4)
__extension__ typedef struct _CM_PARTIAL_RESOURCE_DESCRIPTOR {
    UCHAR Type;
    UCHAR ShareDisposition;
    USHORT Flags;
    union {
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Generic;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Port;
        struct {
            USHORT Level;
            USHORT Group;
            ULONG Vector;
            KAFFINITY Affinity;
        } Interrupt;
        struct {
            union {
                struct {
                    USHORT Group;
                    USHORT MessageCount;
                    ULONG Vector;
                    KAFFINITY Affinity;
                } Raw;
                struct {
                    USHORT Level;
                    USHORT Group;
                    ULONG Vector;
                    KAFFINITY Affinity;
                } Translated;
            };
        } MessageInterrupt;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Memory;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length40;
        } Memory40;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length48;
        } Memory48;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length64;
        } Memory64;
        struct {
            ULONG Start;
            ULONG Length;
            ULONG Reserved;
        } BusNumber;
        struct {
            ULONG DataSize;
            ULONG Reserved1;
            ULONG Reserved2;
        } DeviceSpecificData;
    } u;
} CM_PARTIAL_RESOURCE_DESCRIPTOR, *PCM_PARTIAL_RESOURCE_DESCRIPTOR;

typedef struct _CM_PARTIAL_RESOURCE_LIST {
    USHORT Version;
    USHORT Revision;
    ULONG Count;
    CM_PARTIAL_RESOURCE_DESCRIPTOR PartialDescriptors[1];
} CM_PARTIAL_RESOURCE_LIST, *PCM_PARTIAL_RESOURCE_LIST;

typedef struct _CM_FULL_RESOURCE_DESCRIPTOR {
    INTERFACE_TYPE InterfaceType;
    ULONG BusNumber;
    CM_PARTIAL_RESOURCE_LIST PartialResourceList;
} CM_FULL_RESOURCE_DESCRIPTOR, *PCM_FULL_RESOURCE_DESCRIPTOR;

typedef struct _CM_RESOURCE_LIST {
    ULONG Count;
    CM_FULL_RESOURCE_DESCRIPTOR List[1];
} CM_RESOURCE_LIST, *PCM_RESOURCE_LIST;
#pragma pack(pop)

/* Memory and checks */

#ifndef _STRING_H
#ifdef __cplusplus
#define TIDEGATE_NOEXCEPT noexcept
#else
#define TIDEGATE_NOEXCEPT
#endif
void *memset(void *destination, int value, size_t length) TIDEGATE_NOEXCEPT;
void *memcpy(void *destination, const void *source, size_t length) TIDEGATE_NOEXCEPT;
void *memmove(void *destination, const void *source, size_t length) TIDEGATE_NOEXCEPT;
int memcmp(const void *a, const void *b, size_t length) TIDEGATE_NOEXCEPT;
#undef TIDEGATE_NOEXCEPT
#endif

#define RtlZeroMemory(destination, length) ((void)__builtin_memset((destination), 0, (length)))
#define RtlFillMemory(destination, length, fill) \
    ((void)__builtin_memset((destination), (fill), (length)))
#define RtlCopyMemory(destination, source, length) \
    ((void)__builtin_memcpy((destination), (source), (length)))
#define RtlMoveMemory(destination, source, length) \
    ((void)__builtin_memmove((destination), (source), (length)))
#define RtlEqualMemory(a, b, length) (__builtin_memcmp((a), (b), (length)) == 0)

/* Ours: called at each PAGED_CODE() and for each NT_ASSERT that does not hold. */
VOID TidegatePagedCode(PCSTR File, ULONG Line);
VOID TidegateAssertionFailed(PCSTR Expression, PCSTR File, ULONG Line);

#define PAGED_CODE() TidegatePagedCode(__FILE__, __LINE__)
#define NT_ASSERT(condition) \
    ((condition) ? (void)0 : TidegateAssertionFailed(#condition, __FILE__, __LINE__))
#define ASSERT(condition) NT_ASSERT(condition)
#define NT_VERIFY(condition) NT_ASSERT(condition)

/* Requests to files and to other drivers. Each fails: the host has neither. */

typedef struct _IO_STATUS_BLOCK {
    union {
        NTSTATUS Status;
        PVOID Pointer;
    };
    ULONG_PTR Information;
} IO_STATUS_BLOCK, *PIO_STATUS_BLOCK;

/* Members that requests are built with. */
typedef struct _IO_STACK_LOCATION {
    UCHAR MajorFunction;
    UCHAR MinorFunction;
    UCHAR Flags;
    UCHAR Control;
    PDEVICE_OBJECT DeviceObject;
    PFILE_OBJECT FileObject;
} IO_STACK_LOCATION, *PIO_STACK_LOCATION;

typedef struct _IRP {
    IO_STATUS_BLOCK IoStatus;
    PIO_STATUS_BLOCK UserIosb;
    PKEVENT UserEvent;
    IO_STACK_LOCATION Opaque;
} IRP, *PIRP;

#define IRP_MJ_CREATE 0x00
#define IRP_MJ_CLOSE 0x02
#define IRP_MJ_READ 0x03
#define IRP_MJ_WRITE 0x04
#define IRP_MJ_DEVICE_CONTROL 0x0E
#define IRP_MJ_INTERNAL_DEVICE_CONTROL 0x0F
#define IRP_MJ_PNP 0x1B

#define FILE_ATTRIBUTE_NORMAL 0x00000080
#define FILE_SHARE_READ 0x00000001
#define FILE_SHARE_WRITE 0x00000002
#define FILE_OPEN 0x00000001
#define FILE_SYNCHRONOUS_IO_NONALERT 0x00000020
#define FILE_NON_DIRECTORY_FILE 0x00000040

FORCEINLINE PIO_STACK_LOCATION IoGetNextIrpStackLocation(PIRP Irp) {
    return &Irp->Opaque;
}

extern POBJECT_TYPE *IoFileObjectType;

_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwCreateFile(
    PHANDLE FileHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    PIO_STATUS_BLOCK IoStatusBlock, PLARGE_INTEGER AllocationSize, ULONG FileAttributes,
    ULONG ShareAccess, ULONG CreateDisposition, ULONG CreateOptions, PVOID EaBuffer,
    ULONG EaLength);
_IRQL_requires_max_(DISPATCH_LEVEL)
PDEVICE_OBJECT IoGetRelatedDeviceObject(PFILE_OBJECT FileObject);
_IRQL_requires_max_(PASSIVE_LEVEL)
PIRP IoBuildSynchronousFsdRequest(
    ULONG MajorFunction, PDEVICE_OBJECT DeviceObject, PVOID Buffer, ULONG Length,
    PLARGE_INTEGER StartingOffset, PKEVENT Event, PIO_STATUS_BLOCK IoStatusBlock);
_IRQL_requires_max_(PASSIVE_LEVEL)
PIRP IoBuildDeviceIoControlRequest(
    ULONG IoControlCode, PDEVICE_OBJECT DeviceObject, PVOID InputBuffer, ULONG InputBufferLength,
    PVOID OutputBuffer, ULONG OutputBufferLength, BOOLEAN InternalDeviceIoControl, PKEVENT Event,
    PIO_STATUS_BLOCK IoStatusBlock);
_IRQL_requires_max_(DISPATCH_LEVEL)
NTSTATUS IofCallDriver(PDEVICE_OBJECT DeviceObject, PIRP Irp);
#define IoCallDriver(device, irp) IofCallDriver((device), (irp))

/* Functions. _IRQL_requires_max_ has the highest level of the published page. */

/* Pool */

_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocatePoolWithTag(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExFreePool(PVOID P);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExFreePoolWithTag(PVOID P, ULONG Tag);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocatePool2(POOL_FLAGS Flags, SIZE_T NumberOfBytes, ULONG Tag);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocatePoolZero(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);

_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocatePool(POOL_TYPE PoolType, SIZE_T NumberOfBytes);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocatePoolUninitialized(POOL_TYPE PoolType, SIZE_T NumberOfBytes, ULONG Tag);

/* Lookaside lists */

_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExInitializeNPagedLookasideList(
    PNPAGED_LOOKASIDE_LIST Lookaside, PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free, ULONG Flags,
    SIZE_T Size, ULONG Tag, USHORT Depth);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry);

_IRQL_requires_max_(APC_LEVEL)
VOID ExInitializePagedLookasideList(
    PPAGED_LOOKASIDE_LIST Lookaside, PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free, ULONG Flags,
    SIZE_T Size, ULONG Tag, USHORT Depth);
_IRQL_requires_max_(APC_LEVEL)
VOID ExDeletePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside);
_IRQL_requires_max_(APC_LEVEL)
PVOID ExAllocateFromPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside);
_IRQL_requires_max_(APC_LEVEL)
VOID ExFreeToPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry);

/* Physical and mapped memory, memory descriptor lists */

_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID MmMapIoSpace(
    PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID MmUnmapIoSpace(PVOID BaseAddress, SIZE_T NumberOfBytes);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID MmAllocateContiguousMemory(SIZE_T NumberOfBytes, PHYSICAL_ADDRESS HighestAcceptableAddress);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID MmAllocateContiguousMemorySpecifyCache(
    SIZE_T NumberOfBytes, PHYSICAL_ADDRESS LowestAcceptableAddress,
    PHYSICAL_ADDRESS HighestAcceptableAddress, PHYSICAL_ADDRESS BoundaryAddressMultiple,
    MEMORY_CACHING_TYPE CacheType);
VOID MmFreeContiguousMemory(PVOID BaseAddress);
VOID MmFreeContiguousMemorySpecifyCache(
    PVOID BaseAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType);
PHYSICAL_ADDRESS MmGetPhysicalAddress(PVOID BaseAddress);
_IRQL_requires_max_(DISPATCH_LEVEL)
PMDL IoAllocateMdl(
    PVOID VirtualAddress, ULONG Length, BOOLEAN SecondaryBuffer, BOOLEAN ChargeQuota, PIRP Irp);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID IoFreeMdl(PMDL Mdl);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID MmBuildMdlForNonPagedPool(PMDLX MemoryDescriptorList);
VOID MmProbeAndLockPages(
    PMDLX MemoryDescriptorList, KPROCESSOR_MODE AccessMode, LOCK_OPERATION Operation);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID MmUnlockPages(PMDL MemoryDescriptorList);
PVOID MmMapLockedPagesSpecifyCache(
    PMDLX MemoryDescriptorList, KPROCESSOR_MODE AccessMode, MEMORY_CACHING_TYPE CacheType,
    PVOID BaseAddress, ULONG BugCheckOnFailure, MM_PAGE_PRIORITY Priority);
VOID MmUnmapLockedPages(PVOID BaseAddress, PMDL MemoryDescriptorList);
PMDL MmAllocatePagesForMdlEx(
    PHYSICAL_ADDRESS LowAddress, PHYSICAL_ADDRESS HighAddress, PHYSICAL_ADDRESS SkipBytes,
    SIZE_T TotalBytes, MEMORY_CACHING_TYPE CacheType, ULONG Flags);
VOID MmFreePagesFromMdl(PMDLX MemoryDescriptorList);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID MmMapIoSpaceEx(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, ULONG Protect);
_IRQL_requires_max_(DISPATCH_LEVEL)
PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority);
_IRQL_requires_max_(DISPATCH_LEVEL)
PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl);
_IRQL_requires_max_(DISPATCH_LEVEL)
ULONG MmGetMdlByteCount(PMDL Mdl);
_IRQL_requires_max_(DISPATCH_LEVEL)
ULONG MmGetMdlByteOffset(PMDL Mdl);
PVOID MmGetMdlVirtualAddress(PMDL Mdl);
_IRQL_requires_max_(APC_LEVEL)
VOID ProbeForRead(const volatile VOID *Address, SIZE_T Length, ULONG Alignment);
_IRQL_requires_max_(APC_LEVEL)
VOID ProbeForWrite(volatile VOID *Address, SIZE_T Length, ULONG Alignment);

/* Levels and locks */

VOID KeInitializeSpinLock(PKSPIN_LOCK SpinLock);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeAcquireSpinLock(PKSPIN_LOCK SpinLock, PKIRQL OldIrql);
_IRQL_requires_(DISPATCH_LEVEL)
VOID KeReleaseSpinLock(PKSPIN_LOCK SpinLock, KIRQL NewIrql);
VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
_IRQL_requires_(DISPATCH_LEVEL)
VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK SpinLock);
VOID KeRaiseIrql(KIRQL NewIrql, PKIRQL OldIrql);
VOID KeLowerIrql(KIRQL NewIrql);
KIRQL KeGetCurrentIrql(VOID);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExInitializeFastMutex(PFAST_MUTEX FastMutex);
VOID KeMemoryBarrier(VOID);
_IRQL_requires_max_(APC_LEVEL)
VOID KeEnterCriticalRegion(VOID);
_IRQL_requires_max_(APC_LEVEL)
VOID KeLeaveCriticalRegion(VOID);
BOOLEAN KeSynchronizeExecution(
    PKINTERRUPT Interrupt, PKSYNCHRONIZE_ROUTINE SynchronizeRoutine, PVOID SynchronizeContext);
_IRQL_requires_max_(DISPATCH_LEVEL)
KIRQL KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK SpinLock);
BOOLEAN KeTryToAcquireSpinLockAtDpcLevel(PKSPIN_LOCK SpinLock);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeAcquireInStackQueuedSpinLock(PKSPIN_LOCK SpinLock, PKLOCK_QUEUE_HANDLE LockHandle);
_IRQL_requires_(DISPATCH_LEVEL)
VOID KeReleaseInStackQueuedSpinLock(PKLOCK_QUEUE_HANDLE LockHandle);
_IRQL_requires_max_(APC_LEVEL)
VOID ExAcquireFastMutex(PFAST_MUTEX FastMutex);
_IRQL_requires_max_(APC_LEVEL)
VOID ExReleaseFastMutex(PFAST_MUTEX FastMutex);
_IRQL_requires_max_(APC_LEVEL)
BOOLEAN ExTryToAcquireFastMutex(PFAST_MUTEX FastMutex);
VOID ExInitializePushLock(PEX_PUSH_LOCK PushLock);
_IRQL_requires_max_(APC_LEVEL)
VOID ExAcquirePushLockExclusive(PEX_PUSH_LOCK PushLock);
_IRQL_requires_max_(APC_LEVEL)
VOID ExReleasePushLockExclusive(PEX_PUSH_LOCK PushLock);
_IRQL_requires_max_(APC_LEVEL)
VOID ExAcquirePushLockShared(PEX_PUSH_LOCK PushLock);
_IRQL_requires_max_(APC_LEVEL)
VOID ExReleasePushLockShared(PEX_PUSH_LOCK PushLock);

_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeInitializeGuardedMutex(PKGUARDED_MUTEX Mutex);
_IRQL_requires_max_(APC_LEVEL)
VOID KeAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
_IRQL_requires_max_(APC_LEVEL)
BOOLEAN KeTryToAcquireGuardedMutex(PKGUARDED_MUTEX Mutex);
_IRQL_requires_max_(APC_LEVEL)
VOID KeReleaseGuardedMutex(PKGUARDED_MUTEX Mutex);
_IRQL_requires_max_(DISPATCH_LEVEL)
NTSTATUS ExInitializeResourceLite(PERESOURCE Resource);
_IRQL_requires_max_(DISPATCH_LEVEL)
NTSTATUS ExDeleteResourceLite(PERESOURCE Resource);
_IRQL_requires_max_(APC_LEVEL)
BOOLEAN ExAcquireResourceExclusiveLite(PERESOURCE Resource, BOOLEAN Wait);
_IRQL_requires_max_(APC_LEVEL)
BOOLEAN ExAcquireResourceSharedLite(PERESOURCE Resource, BOOLEAN Wait);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExReleaseResourceLite(PERESOURCE Resource);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN ExIsResourceAcquiredExclusiveLite(PERESOURCE Resource);
_IRQL_requires_max_(DISPATCH_LEVEL)
ULONG ExIsResourceAcquiredSharedLite(PERESOURCE Resource);

/* Events, mutexes, semaphores, waits */

VOID KeInitializeEvent(PRKEVENT Event, EVENT_TYPE Type, BOOLEAN State);
LONG KeSetEvent(PRKEVENT Event, KPRIORITY Increment, BOOLEAN Wait);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeClearEvent(PRKEVENT Event);
_IRQL_requires_max_(DISPATCH_LEVEL)
LONG KeResetEvent(PRKEVENT Event);
_IRQL_requires_max_(DISPATCH_LEVEL)
LONG KeReadStateEvent(PRKEVENT Event);
NTSTATUS KeWaitForSingleObject(
    PVOID Object, KWAIT_REASON WaitReason, KPROCESSOR_MODE WaitMode, BOOLEAN Alertable,
    PLARGE_INTEGER Timeout);
VOID KeInitializeMutex(PRKMUTEX Mutex, ULONG Level);
_IRQL_requires_max_(DISPATCH_LEVEL)
LONG KeReleaseMutex(PRKMUTEX Mutex, BOOLEAN Wait);
_IRQL_requires_max_(DISPATCH_LEVEL)
LONG KeReadStateMutex(PRKMUTEX Mutex);
_IRQL_requires_max_(DISPATCH_LEVEL)
LONG KeReadStateSemaphore(PRKSEMAPHORE Semaphore);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN KeReadStateTimer(PKTIMER Timer);
_IRQL_requires_max_(PASSIVE_LEVEL)
VOID KeInitializeSemaphore(PRKSEMAPHORE Semaphore, LONG Count, LONG Limit);
LONG KeReleaseSemaphore(PRKSEMAPHORE Semaphore, KPRIORITY Increment, LONG Adjustment, BOOLEAN Wait);
NTSTATUS KeWaitForMultipleObjects(
    ULONG Count, PVOID Object[], WAIT_TYPE WaitType, KWAIT_REASON WaitReason,
    KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Timeout,
    PKWAIT_BLOCK WaitBlockArray);

/* Deferred procedure calls, timers, work items */

VOID KeInitializeDpc(PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext);
BOOLEAN KeInsertQueueDpc(PRKDPC Dpc, PVOID SystemArgument1, PVOID SystemArgument2);
BOOLEAN KeRemoveQueueDpc(PRKDPC Dpc);
_IRQL_requires_max_(PASSIVE_LEVEL)
VOID KeFlushQueuedDpcs(VOID);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeInitializeTimer(PKTIMER Timer);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeInitializeTimerEx(PKTIMER Timer, TIMER_TYPE Type);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN KeSetTimer(PKTIMER Timer, LARGE_INTEGER DueTime, PKDPC Dpc);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN KeSetTimerEx(PKTIMER Timer, LARGE_INTEGER DueTime, LONG Period, PKDPC Dpc);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN KeCancelTimer(PKTIMER Timer);
_IRQL_requires_max_(DISPATCH_LEVEL)
PIO_WORKITEM IoAllocateWorkItem(PDEVICE_OBJECT DeviceObject);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID IoQueueWorkItem(
    PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE WorkerRoutine, WORK_QUEUE_TYPE QueueType,
    PVOID Context);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID IoFreeWorkItem(PIO_WORKITEM IoWorkItem);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID IoQueueWorkItemEx(
    PIO_WORKITEM IoWorkItem, PIO_WORKITEM_ROUTINE_EX WorkerRoutine, WORK_QUEUE_TYPE QueueType,
    PVOID Context);
VOID ExInitializeWorkItem(
    PWORK_QUEUE_ITEM Item, PWORKER_THREAD_ROUTINE Routine, PVOID Context);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ExQueueWorkItem(PWORK_QUEUE_ITEM WorkItem, WORK_QUEUE_TYPE QueueType);
VOID KeInitializeThreadedDpc(PRKDPC Dpc, PKDEFERRED_ROUTINE DeferredRoutine, PVOID DeferredContext);
_IRQL_requires_max_(DISPATCH_LEVEL)
PEX_TIMER ExAllocateTimer(PEXT_CALLBACK Callback, PVOID CallbackContext, ULONG Attributes);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN ExSetTimer(PEX_TIMER Timer, LONGLONG DueTime, LONGLONG Period, PVOID Parameters);
_IRQL_requires_max_(DISPATCH_LEVEL)
BOOLEAN ExCancelTimer(PEX_TIMER Timer, PVOID Parameters);
BOOLEAN ExDeleteTimer(PEX_TIMER Timer, BOOLEAN Cancel, BOOLEAN Wait, PVOID Parameters);

/* Time */

_IRQL_requires_max_(APC_LEVEL)
NTSTATUS KeDelayExecutionThread(
    KPROCESSOR_MODE WaitMode, BOOLEAN Alertable, PLARGE_INTEGER Interval);
VOID KeStallExecutionProcessor(ULONG MicroSeconds);
LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER PerformanceFrequency);
VOID KeQuerySystemTimePrecise(PLARGE_INTEGER CurrentTime);
ULONGLONG KeQueryInterruptTime(VOID);
ULONG KeQueryTimeIncrement(VOID);
VOID KeQuerySystemTime(PLARGE_INTEGER CurrentTime);
VOID KeQueryTickCount(PLARGE_INTEGER CurrentCount);
ULONGLONG KeQueryUnbiasedInterruptTime(VOID);
ULONG64 KeQueryInterruptTimePrecise(PULONG64 QpcTimeStamp);

/* Atomics */

LONG InterlockedIncrement(LONG volatile *Addend);
LONG InterlockedDecrement(LONG volatile *Addend);
LONG InterlockedExchange(LONG volatile *Target, LONG Value);
LONG InterlockedCompareExchange(LONG volatile *Destination, LONG Exchange, LONG Comparand);
LONG InterlockedExchangeAdd(LONG volatile *Addend, LONG Value);
LONG InterlockedOr(LONG volatile *Destination, LONG Value);
LONG InterlockedAnd(LONG volatile *Destination, LONG Value);
LONG InterlockedXor(LONG volatile *Destination, LONG Value);
PVOID InterlockedExchangePointer(PVOID volatile *Target, PVOID Value);
PVOID InterlockedCompareExchangePointer(PVOID *Destination, PVOID Exchange, PVOID Comparand);
LONG64 InterlockedIncrement64(LONG64 volatile *Addend);
LONG64 InterlockedDecrement64(LONG64 volatile *Addend);
LONG64 InterlockedExchange64(LONG64 volatile *Target, LONG64 Value);
LONG64 InterlockedExchangeAdd64(LONG64 volatile *Addend, LONG64 Value);
LONG64 InterlockedCompareExchange64(
    LONG64 volatile *Destination, LONG64 Exchange, LONG64 Comparand);
LONG64 InterlockedOr64(LONG64 volatile *Destination, LONG64 Value);
LONG64 InterlockedAnd64(LONG64 volatile *Destination, LONG64 Value);

/* Lists under a spin lock */

PLIST_ENTRY ExInterlockedInsertHeadList(
    PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
PLIST_ENTRY ExInterlockedInsertTailList(
    PLIST_ENTRY ListHead, PLIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
PLIST_ENTRY ExInterlockedRemoveHeadList(PLIST_ENTRY ListHead, PKSPIN_LOCK Lock);

PSINGLE_LIST_ENTRY ExInterlockedPushEntryList(
    PSINGLE_LIST_ENTRY ListHead, PSINGLE_LIST_ENTRY ListEntry, PKSPIN_LOCK Lock);
PSINGLE_LIST_ENTRY ExInterlockedPopEntryList(PSINGLE_LIST_ENTRY ListHead, PKSPIN_LOCK Lock);

/* Lists of single links without a lock */

VOID InitializeSListHead(PSLIST_HEADER ListHead);
#define ExInitializeSListHead InitializeSListHead
_IRQL_requires_max_(DISPATCH_LEVEL)
PSLIST_ENTRY InterlockedPushEntrySList(PSLIST_HEADER ListHead, PSLIST_ENTRY ListEntry);
_IRQL_requires_max_(DISPATCH_LEVEL)
PSLIST_ENTRY InterlockedPopEntrySList(PSLIST_HEADER ListHead);
_IRQL_requires_max_(DISPATCH_LEVEL)
PSLIST_ENTRY InterlockedFlushSList(PSLIST_HEADER ListHead);
#define ExInterlockedPushEntrySList(head, entry, lock) InterlockedPushEntrySList(head, entry)
#define ExInterlockedPopEntrySList(head, lock) InterlockedPopEntrySList(head)
#define ExInterlockedFlushSList InterlockedFlushSList
USHORT ExQueryDepthSList(PSLIST_HEADER SListHead);

/* Registers and ports */

ULONG READ_REGISTER_ULONG(volatile ULONG *Register);
VOID WRITE_REGISTER_ULONG(volatile ULONG *Register, ULONG Value);
VOID WRITE_REGISTER_ULONG64(volatile ULONG64 *Register, ULONG64 Value);
UCHAR READ_REGISTER_UCHAR(volatile UCHAR *Register);
VOID WRITE_REGISTER_UCHAR(volatile UCHAR *Register, UCHAR Value);
USHORT READ_REGISTER_USHORT(volatile USHORT *Register);
VOID WRITE_REGISTER_USHORT(volatile USHORT *Register, USHORT Value);
VOID READ_REGISTER_BUFFER_ULONG(volatile ULONG *Register, PULONG Buffer, ULONG Count);
VOID WRITE_REGISTER_BUFFER_ULONG(volatile ULONG *Register, PULONG Buffer, ULONG Count);
UCHAR READ_PORT_UCHAR(PUCHAR Port);
VOID WRITE_PORT_UCHAR(PUCHAR Port, UCHAR Value);
ULONG64 READ_REGISTER_ULONG64(volatile ULONG64 *Register);
ULONG READ_REGISTER_NOFENCE_ULONG(volatile ULONG *Register);
VOID WRITE_REGISTER_NOFENCE_ULONG(volatile ULONG *Register, ULONG Value);
VOID READ_REGISTER_NOFENCE_BUFFER_ULONG(volatile ULONG *Register, PULONG Buffer, ULONG Count);
VOID READ_REGISTER_BUFFER_UCHAR(volatile UCHAR *Register, PUCHAR Buffer, ULONG Count);
VOID WRITE_REGISTER_BUFFER_UCHAR(volatile UCHAR *Register, PUCHAR Buffer, ULONG Count);
USHORT READ_PORT_USHORT(PUSHORT Port);
VOID WRITE_PORT_USHORT(PUSHORT Port, USHORT Value);
ULONG READ_PORT_ULONG(PULONG Port);
VOID WRITE_PORT_ULONG(PULONG Port, ULONG Value);

/* Threads, processes, objects */

_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS PsCreateSystemThread(
    PHANDLE ThreadHandle, ULONG DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    HANDLE ProcessHandle, PCLIENT_ID ClientId, PKSTART_ROUTINE StartRoutine, PVOID StartContext);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS PsTerminateSystemThread(NTSTATUS ExitStatus);
_IRQL_requires_max_(PASSIVE_LEVEL)
KPRIORITY KeSetPriorityThread(PKTHREAD Thread, KPRIORITY Priority);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ObReferenceObjectByHandle(
    HANDLE Handle, ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType, KPROCESSOR_MODE AccessMode,
    PVOID *Object, POBJECT_HANDLE_INFORMATION HandleInformation);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ObDereferenceObject(PVOID Object);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID ObReferenceObject(PVOID Object);
/* Tags of references are not kept. */
#define ObReferenceObjectByHandleWithTag(handle, access, type, mode, tag, object, information) \
    ((void)(tag), ObReferenceObjectByHandle(handle, access, type, mode, object, information))
#define ObReferenceObjectWithTag(object, tag) ((void)(tag), ObReferenceObject(object))
#define ObDereferenceObjectWithTag(object, tag) ((void)(tag), ObDereferenceObject(object))
HANDLE PsGetCurrentProcessId(VOID);
PKTHREAD KeGetCurrentThread(VOID);
ULONG KeGetCurrentProcessorNumberEx(PPROCESSOR_NUMBER ProcNumber);
ULONG KeGetCurrentProcessorNumber(VOID);
ULONG KeQueryActiveProcessorCount(KAFFINITY *ActiveProcessors);
PETHREAD PsGetCurrentThread(VOID);
PEPROCESS PsGetCurrentProcess(VOID);
HANDLE PsGetCurrentThreadId(VOID);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeStackAttachProcess(PRKPROCESS Process, PKAPC_STATE ApcState);
_IRQL_requires_max_(DISPATCH_LEVEL)
VOID KeUnstackDetachProcess(PKAPC_STATE ApcState);

/* Registry and devices */

_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwClose(HANDLE Handle);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwOpenKey(
    PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwQueryValueKey(
    HANDLE KeyHandle, PUNICODE_STRING ValueName,
    KEY_VALUE_INFORMATION_CLASS KeyValueInformationClass, PVOID KeyValueInformation, ULONG Length,
    PULONG ResultLength);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlQueryRegistryValues(
    ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
    PVOID Environment);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS IoGetDeviceProperty(
    PDEVICE_OBJECT DeviceObject, DEVICE_REGISTRY_PROPERTY DeviceProperty, ULONG BufferLength,
    PVOID PropertyBuffer, PULONG ResultLength);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS IoOpenDeviceRegistryKey(
    PDEVICE_OBJECT DeviceObject, ULONG DevInstKeyType, ACCESS_MASK DesiredAccess,
    PHANDLE DeviceRegKey);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwCreateKey(
    PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    ULONG TitleIndex, PUNICODE_STRING Class, ULONG CreateOptions, PULONG Disposition);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwSetValueKey(
    HANDLE KeyHandle, PUNICODE_STRING ValueName, ULONG TitleIndex, ULONG Type, PVOID Data,
    ULONG DataSize);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS ZwFlushKey(HANDLE KeyHandle);

_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlWriteRegistryValue(
    ULONG RelativeTo, PCWSTR Path, PCWSTR ValueName, ULONG ValueType, PVOID ValueData,
    ULONG ValueLength);

/* Strings and memory */

SIZE_T RtlCompareMemory(const VOID *Source1, const VOID *Source2, SIZE_T Length);
VOID RtlInitUnicodeString(PUNICODE_STRING DestinationString, PCWSTR SourceString);
VOID RtlCopyUnicodeString(PUNICODE_STRING DestinationString, PCUNICODE_STRING SourceString);
_IRQL_requires_max_(PASSIVE_LEVEL)
LONG RtlCompareUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);
VOID RtlInitEmptyUnicodeString(PUNICODE_STRING UnicodeString, PWCHAR Buffer, USHORT BufferSize);
_IRQL_requires_max_(PASSIVE_LEVEL)
BOOLEAN RtlEqualUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);

NTSTATUS RtlAppendUnicodeToString(PUNICODE_STRING Destination, PCWSTR Source);
NTSTATUS RtlAppendUnicodeStringToString(PUNICODE_STRING Destination, PCUNICODE_STRING Source);
_IRQL_requires_max_(PASSIVE_LEVEL)
BOOLEAN RtlPrefixUnicodeString(
    PCUNICODE_STRING String1, PCUNICODE_STRING String2, BOOLEAN CaseInSensitive);
_IRQL_requires_max_(PASSIVE_LEVEL)
WCHAR RtlUpcaseUnicodeChar(WCHAR SourceCharacter);
_IRQL_requires_max_(PASSIVE_LEVEL)
WCHAR RtlDowncaseUnicodeChar(WCHAR SourceCharacter);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlUnicodeStringToInteger(PCUNICODE_STRING String, ULONG Base, PULONG Value);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlIntegerToUnicodeString(ULONG Value, ULONG Base, PUNICODE_STRING String);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlInt64ToUnicodeString(ULONGLONG Value, ULONG Base, PUNICODE_STRING String);
VOID RtlInitAnsiString(PANSI_STRING DestinationString, PCSTR SourceString);
VOID RtlInitString(PSTRING DestinationString, PCSTR SourceString);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlAnsiStringToUnicodeString(
    PUNICODE_STRING DestinationString, PCANSI_STRING SourceString,
    BOOLEAN AllocateDestinationString);
_IRQL_requires_max_(PASSIVE_LEVEL)
NTSTATUS RtlUnicodeStringToAnsiString(
    PANSI_STRING DestinationString, PCUNICODE_STRING SourceString,
    BOOLEAN AllocateDestinationString);
_IRQL_requires_max_(PASSIVE_LEVEL)
VOID RtlFreeUnicodeString(PUNICODE_STRING UnicodeString);
_IRQL_requires_max_(PASSIVE_LEVEL)
VOID RtlFreeAnsiString(PANSI_STRING AnsiString);

/* Bitmaps */

VOID RtlInitializeBitMap(PRTL_BITMAP BitMapHeader, PULONG BitMapBuffer, ULONG SizeOfBitMap);
VOID RtlClearAllBits(PRTL_BITMAP BitMapHeader);
VOID RtlSetAllBits(PRTL_BITMAP BitMapHeader);
VOID RtlClearBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
VOID RtlSetBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
BOOLEAN RtlTestBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber);
VOID RtlClearBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToClear);
VOID RtlSetBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToSet);
ULONG RtlFindClearBits(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
ULONG RtlFindClearBitsAndSet(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex);
BOOLEAN RtlAreBitsClear(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
BOOLEAN RtlAreBitsSet(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length);
ULONG RtlNumberOfSetBits(PRTL_BITMAP BitMapHeader);
#define RtlCheckBit(bitmap, bit) RtlTestBit((bitmap), (bit))

/* Errors */

#include "bugcodes.h"

DECLSPEC_NORETURN
VOID KeBugCheckEx(
    ULONG BugCheckCode, ULONG_PTR BugCheckParameter1, ULONG_PTR BugCheckParameter2,
    ULONG_PTR BugCheckParameter3, ULONG_PTR BugCheckParameter4);

/* Debugger output. The levels are numbers of the debugger's filter. */

ULONG DbgPrint(PCSTR Format, ...);
ULONG DbgPrintEx(ULONG ComponentId, ULONG Level, PCSTR Format, ...);
#define KdPrint(arguments) DbgPrint arguments
#define KdPrintEx(arguments) DbgPrintEx arguments

/* No kernel debugger is attached. DbgBreakPoint is reported: without one it stops the system. */

VOID DbgBreakPoint(VOID);
/* Returns 0 and an empty response. */
ULONG DbgPrompt(PCSTR Prompt, PSTR Response, ULONG Length);
BOOLEAN KdRefreshDebuggerNotPresent(VOID);
extern PBOOLEAN KdDebuggerEnabled;
extern PBOOLEAN KdDebuggerNotPresent;
#define KD_DEBUGGER_ENABLED (*KdDebuggerEnabled)
#define KD_DEBUGGER_NOT_PRESENT (*KdDebuggerNotPresent)
#ifndef _MSC_EXTENSIONS
#define _ReturnAddress() __builtin_return_address(0)
#endif

#ifdef __cplusplus
}
#endif

#endif
