/*
 * Memory descriptor lists, mapped memory, lookaside lists, lists without locks, buffers of
 * registers, ports, bitmaps. Part of tidegate_nt.c.
 */

/* Mapped bus addresses */

PVOID MmMapIoSpace(
    PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, MEMORY_CACHING_TYPE CacheType) {
    UNREFERENCED_PARAMETER(CacheType);
    check("MmMapIoSpace", DISPATCH_LEVEL);
    return host->MapIo(host->Host, (UINT64)PhysicalAddress.QuadPart, NumberOfBytes);
}

PVOID MmMapIoSpaceEx(PHYSICAL_ADDRESS PhysicalAddress, SIZE_T NumberOfBytes, ULONG Protect) {
    UNREFERENCED_PARAMETER(Protect);
    check("MmMapIoSpaceEx", DISPATCH_LEVEL);
    return host->MapIo(host->Host, (UINT64)PhysicalAddress.QuadPart, NumberOfBytes);
}

VOID MmUnmapIoSpace(PVOID BaseAddress, SIZE_T NumberOfBytes) {
    check("MmUnmapIoSpace", DISPATCH_LEVEL);
    host->UnmapIo(host->Host, BaseAddress, NumberOfBytes);
}

/*
 * Memory descriptor lists. Contiguous memory has page frame numbers. Other memory has none that the
 * device could use.
 */

#define MDL_TAG 0x206C644Du         /* 'Mdl ' */
#define MDL_OWNS_PAGES 0x4000       /* MmAllocatePagesForMdlEx */
#define MDL_LOCKED (MDL_PAGES_LOCKED | MDL_SOURCE_IS_NONPAGED_POOL)

static PMDL make_mdl(PVOID address, SIZE_T bytes) {
    UINT64 bus = host->BusAddress(host->Host, address);
    ULONG offset = bus == 0 ? BYTE_OFFSET(address) : BYTE_OFFSET(bus);
    SIZE_T pages = (offset + bytes + PAGE_SIZE - 1) >> PAGE_SHIFT;
    SIZE_T size = sizeof(MDL) + pages * sizeof(PFN_NUMBER);
    PMDL mdl = (PMDL)allocate(size, MDL_TAG, TRUE);
    if (mdl != NULL) {
        mdl->Size = (CSHORT)size;
        mdl->StartVa = (PUCHAR)address - offset;
        mdl->ByteOffset = offset;
        mdl->ByteCount = (ULONG)bytes;
    }
    return mdl;
}

static VOID fill_pages(PMDL mdl) {
    PPFN_NUMBER pages = (PPFN_NUMBER)(mdl + 1);
    PUCHAR at = (PUCHAR)mdl->StartVa + mdl->ByteOffset;
    SIZE_T count = ADDRESS_AND_SIZE_TO_SPAN_PAGES((ULONG_PTR)mdl->ByteOffset, mdl->ByteCount);
    UINT64 bus = host->BusAddress(host->Host, at);
    SIZE_T i;
    for (i = 0; i < count; i++) {
        pages[i] = bus == 0 ? 0 : (PFN_NUMBER)(bus >> PAGE_SHIFT) + i;
    }
}

PMDL IoAllocateMdl(
    PVOID VirtualAddress, ULONG Length, BOOLEAN SecondaryBuffer, BOOLEAN ChargeQuota, PIRP Irp) {
    UNREFERENCED_PARAMETER(SecondaryBuffer);
    UNREFERENCED_PARAMETER(ChargeQuota);
    UNREFERENCED_PARAMETER(Irp);
    check("IoAllocateMdl", DISPATCH_LEVEL);
    return make_mdl(VirtualAddress, Length);
}

VOID IoFreeMdl(PMDL Mdl) {
    check("IoFreeMdl", DISPATCH_LEVEL);
    if ((Mdl->MdlFlags & MDL_PAGES_LOCKED) != 0) {
        report("code-mdl", "IoFreeMdl of a list whose pages are locked: call MmUnlockPages before");
    }
    release(Mdl, MDL_TAG);
}

VOID MmBuildMdlForNonPagedPool(PMDLX MemoryDescriptorList) {
    check("MmBuildMdlForNonPagedPool", DISPATCH_LEVEL);
    if ((MemoryDescriptorList->MdlFlags & MDL_LOCKED) != 0) {
        report("code-mdl", "MmBuildMdlForNonPagedPool of a list that is built or locked");
    }
    MemoryDescriptorList->MdlFlags |= MDL_SOURCE_IS_NONPAGED_POOL;
    MemoryDescriptorList->MappedSystemVa =
        (PUCHAR)MemoryDescriptorList->StartVa + MemoryDescriptorList->ByteOffset;
    fill_pages(MemoryDescriptorList);
}

VOID MmProbeAndLockPages(
    PMDLX MemoryDescriptorList, KPROCESSOR_MODE AccessMode, LOCK_OPERATION Operation) {
    UNREFERENCED_PARAMETER(AccessMode);
    UNREFERENCED_PARAMETER(Operation);
    check("MmProbeAndLockPages", DISPATCH_LEVEL);
    if ((MemoryDescriptorList->MdlFlags & MDL_LOCKED) != 0) {
        report("code-mdl", "MmProbeAndLockPages of a list that is built or locked");
    }
    MemoryDescriptorList->MdlFlags |= MDL_PAGES_LOCKED;
    fill_pages(MemoryDescriptorList);
}

VOID MmUnlockPages(PMDL MemoryDescriptorList) {
    check("MmUnlockPages", DISPATCH_LEVEL);
    if ((MemoryDescriptorList->MdlFlags & MDL_PAGES_LOCKED) == 0) {
        report("code-mdl", "MmUnlockPages of a list whose pages are not locked");
    }
    MemoryDescriptorList->MdlFlags &= ~(MDL_PAGES_LOCKED | MDL_MAPPED_TO_SYSTEM_VA);
    MemoryDescriptorList->MappedSystemVa = NULL;
}

static BOOLEAN is_locked(const char *function, PMDL mdl) {
    BOOLEAN locked = (mdl->MdlFlags & (MDL_LOCKED | MDL_OWNS_PAGES)) != 0;
    if (!locked) {
        report("code-mdl", "%s of a list that is neither built nor locked", function);
    }
    return locked;
}

PVOID MmMapLockedPagesSpecifyCache(
    PMDLX MemoryDescriptorList, KPROCESSOR_MODE AccessMode, MEMORY_CACHING_TYPE CacheType,
    PVOID BaseAddress, ULONG BugCheckOnFailure, MM_PAGE_PRIORITY Priority) {
    UNREFERENCED_PARAMETER(CacheType);
    UNREFERENCED_PARAMETER(BaseAddress);
    UNREFERENCED_PARAMETER(BugCheckOnFailure);
    UNREFERENCED_PARAMETER(Priority);
    check("MmMapLockedPagesSpecifyCache", AccessMode == KernelMode ? DISPATCH_LEVEL : APC_LEVEL);
    if (!is_locked("MmMapLockedPagesSpecifyCache", MemoryDescriptorList)) {
        return NULL;
    }
    if ((MemoryDescriptorList->MdlFlags & MDL_SOURCE_IS_NONPAGED_POOL) != 0) {
        report("code-mdl", "MmMapLockedPagesSpecifyCache of a list of MmBuildMdlForNonPagedPool");
    }
    MemoryDescriptorList->MdlFlags |= MDL_MAPPED_TO_SYSTEM_VA;
    MemoryDescriptorList->MappedSystemVa =
        (PUCHAR)MemoryDescriptorList->StartVa + MemoryDescriptorList->ByteOffset;
    return MemoryDescriptorList->MappedSystemVa;
}

VOID MmUnmapLockedPages(PVOID BaseAddress, PMDL MemoryDescriptorList) {
    check("MmUnmapLockedPages", DISPATCH_LEVEL);
    if ((MemoryDescriptorList->MdlFlags & MDL_MAPPED_TO_SYSTEM_VA) == 0 ||
        BaseAddress != MemoryDescriptorList->MappedSystemVa) {
        report("code-mdl", "MmUnmapLockedPages of an address at which the list is not mapped");
    }
    MemoryDescriptorList->MdlFlags &= ~MDL_MAPPED_TO_SYSTEM_VA;
    MemoryDescriptorList->MappedSystemVa = NULL;
}

PVOID MmGetSystemAddressForMdlSafe(PMDL Mdl, ULONG Priority) {
    check("MmGetSystemAddressForMdlSafe", DISPATCH_LEVEL);
    if ((Mdl->MdlFlags & (MDL_MAPPED_TO_SYSTEM_VA | MDL_SOURCE_IS_NONPAGED_POOL)) != 0) {
        return Mdl->MappedSystemVa;
    }
    if (!is_locked("MmGetSystemAddressForMdlSafe", Mdl)) {
        return NULL;
    }
    return MmMapLockedPagesSpecifyCache(
        Mdl, KernelMode, MmCached, NULL, FALSE, (MM_PAGE_PRIORITY)Priority);
}

PPFN_NUMBER MmGetMdlPfnArray(PMDL Mdl) {
    check("MmGetMdlPfnArray", DISPATCH_LEVEL);
    if (is_locked("MmGetMdlPfnArray", Mdl) && *(PPFN_NUMBER)(Mdl + 1) == 0) {
        report(
            "code-mdl",
            "MmGetMdlPfnArray of memory that the device does not reach: it is not contiguous");
    }
    return (PPFN_NUMBER)(Mdl + 1);
}

ULONG MmGetMdlByteCount(PMDL Mdl) {
    return Mdl->ByteCount;
}

ULONG MmGetMdlByteOffset(PMDL Mdl) {
    return Mdl->ByteOffset;
}

PVOID MmGetMdlVirtualAddress(PMDL Mdl) {
    return (PUCHAR)Mdl->StartVa + Mdl->ByteOffset;
}

/* The pages are one run of contiguous memory. */
PMDL MmAllocatePagesForMdlEx(
    PHYSICAL_ADDRESS LowAddress, PHYSICAL_ADDRESS HighAddress, PHYSICAL_ADDRESS SkipBytes,
    SIZE_T TotalBytes, MEMORY_CACHING_TYPE CacheType, ULONG Flags) {
    PVOID memory;
    PMDL mdl;
    UNREFERENCED_PARAMETER(LowAddress);
    UNREFERENCED_PARAMETER(HighAddress);
    UNREFERENCED_PARAMETER(SkipBytes);
    UNREFERENCED_PARAMETER(Flags);
    check("MmAllocatePagesForMdlEx", APC_LEVEL);
    memory = host->AllocateContiguous(
        host->Host, ROUND_TO_PAGES(TotalBytes), CacheType == MmNonCached);
    if (memory == NULL) {
        return NULL;
    }
    mdl = make_mdl(memory, TotalBytes);
    if (mdl == NULL) {
        (void)host->FreeContiguous(host->Host, memory);
        return NULL;
    }
    mdl->MdlFlags |= MDL_OWNS_PAGES;
    fill_pages(mdl);
    return mdl;
}

/* The driver frees the list itself with ExFreePool. */
VOID MmFreePagesFromMdl(PMDLX MemoryDescriptorList) {
    check("MmFreePagesFromMdl", APC_LEVEL);
    if ((MemoryDescriptorList->MdlFlags & MDL_OWNS_PAGES) == 0) {
        report("code-mdl", "MmFreePagesFromMdl of a list that owns no pages");
        return;
    }
    MemoryDescriptorList->MdlFlags &= ~MDL_OWNS_PAGES;
    (void)host->FreeContiguous(
        host->Host, (PUCHAR)MemoryDescriptorList->StartVa + MemoryDescriptorList->ByteOffset);
}

/* Addresses of a process. A bad one ends the process here; on Windows it raises an exception. */

static VOID probe(const char *function, ULONG_PTR address, SIZE_T length, ULONG alignment) {
    check(function, APC_LEVEL);
    if (length != 0 && alignment != 0 && (address & (alignment - 1)) != 0) {
        report(
            "code-user-address",
            "%s of %p, which is not aligned to %u bytes", function, (PVOID)address, alignment);
    }
    if (length != 0 && (address == 0 || address >> 47 != 0)) {
        report(
            "code-user-address",
            "%s of %p: it is not an address of a process", function, (PVOID)address);
    }
}

VOID ProbeForRead(const volatile VOID *Address, SIZE_T Length, ULONG Alignment) {
    probe("ProbeForRead", (ULONG_PTR)Address, Length, Alignment);
}

VOID ProbeForWrite(volatile VOID *Address, SIZE_T Length, ULONG Alignment) {
    probe("ProbeForWrite", (ULONG_PTR)Address, Length, Alignment);
}

/* Lookaside lists. No entry is kept, so pool finds what is done to a freed entry. */

#define LOOKASIDE 0x6B6F6F4Cu

typedef struct _LOOKASIDE_STATE {
    ULONG_PTR Magic;
    PALLOCATE_FUNCTION Allocate;
    PFREE_FUNCTION Free;
    SIZE_T Size;
    ULONG Tag;
    LONG Used;
} LOOKASIDE_STATE;

C_ASSERT(sizeof(LOOKASIDE_STATE) <= sizeof(NPAGED_LOOKASIDE_LIST));

static LOOKASIDE_STATE *lookaside_of(const char *function, PVOID list) {
    LOOKASIDE_STATE *state = (LOOKASIDE_STATE *)list;
    if (state->Magic != LOOKASIDE) {
        report("code-lookaside", "%s of a lookaside list that was not initialised", function);
        return NULL;
    }
    return state;
}

static VOID open_lookaside(
    PVOID list, PALLOCATE_FUNCTION allocate_entry, PFREE_FUNCTION free_entry, SIZE_T size,
    ULONG tag) {
    LOOKASIDE_STATE *state = (LOOKASIDE_STATE *)list;
    state->Magic = LOOKASIDE;
    state->Allocate = allocate_entry;
    state->Free = free_entry;
    state->Size = size;
    state->Tag = tag;
    state->Used = 0;
}

static VOID close_lookaside(const char *function, PVOID list) {
    LOOKASIDE_STATE *state = lookaside_of(function, list);
    if (state != NULL) {
        LONG used = InterlockedOr(&state->Used, 0);
        if (used != 0) {
            report(
                "code-lookaside", "%s of a lookaside list with %d entries in use", function, used);
        }
        state->Magic = 0;
    }
}

static PVOID take_entry(const char *function, PVOID list, POOL_TYPE type) {
    LOOKASIDE_STATE *state = lookaside_of(function, list);
    PVOID entry;
    if (state == NULL) {
        return NULL;
    }
    entry = state->Allocate != NULL ? state->Allocate(type, state->Size, state->Tag)
                                    : allocate(state->Size, state->Tag, FALSE);
    if (entry != NULL) {
        (void)InterlockedIncrement(&state->Used);
    }
    return entry;
}

static VOID return_entry(const char *function, PVOID list, PVOID entry) {
    LOOKASIDE_STATE *state = lookaside_of(function, list);
    if (state == NULL) {
        return;
    }
    (void)InterlockedDecrement(&state->Used);
    if (state->Free != NULL) {
        state->Free(entry);
    } else {
        release(entry, state->Tag);
    }
}

VOID ExInitializeNPagedLookasideList(
    PNPAGED_LOOKASIDE_LIST Lookaside, PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free, ULONG Flags,
    SIZE_T Size, ULONG Tag, USHORT Depth) {
    UNREFERENCED_PARAMETER(Flags);
    UNREFERENCED_PARAMETER(Depth);
    check("ExInitializeNPagedLookasideList", DISPATCH_LEVEL);
    open_lookaside(Lookaside, Allocate, Free, Size, Tag);
}

VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside) {
    check("ExDeleteNPagedLookasideList", DISPATCH_LEVEL);
    close_lookaside("ExDeleteNPagedLookasideList", Lookaside);
}

PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside) {
    check("ExAllocateFromNPagedLookasideList", DISPATCH_LEVEL);
    return take_entry("ExAllocateFromNPagedLookasideList", Lookaside, NonPagedPool);
}

VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry) {
    check("ExFreeToNPagedLookasideList", DISPATCH_LEVEL);
    return_entry("ExFreeToNPagedLookasideList", Lookaside, Entry);
}

VOID ExInitializePagedLookasideList(
    PPAGED_LOOKASIDE_LIST Lookaside, PALLOCATE_FUNCTION Allocate, PFREE_FUNCTION Free, ULONG Flags,
    SIZE_T Size, ULONG Tag, USHORT Depth) {
    UNREFERENCED_PARAMETER(Flags);
    UNREFERENCED_PARAMETER(Depth);
    check("ExInitializePagedLookasideList", APC_LEVEL);
    open_lookaside(Lookaside, Allocate, Free, Size, Tag);
}

VOID ExDeletePagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside) {
    check("ExDeletePagedLookasideList", APC_LEVEL);
    close_lookaside("ExDeletePagedLookasideList", Lookaside);
}

PVOID ExAllocateFromPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside) {
    check("ExAllocateFromPagedLookasideList", APC_LEVEL);
    return take_entry("ExAllocateFromPagedLookasideList", Lookaside, PagedPool);
}

VOID ExFreeToPagedLookasideList(PPAGED_LOOKASIDE_LIST Lookaside, PVOID Entry) {
    check("ExFreeToPagedLookasideList", APC_LEVEL);
    return_entry("ExFreeToPagedLookasideList", Lookaside, Entry);
}

/* Lists of single links */

PSINGLE_LIST_ENTRY ExInterlockedPushEntryList(
    PSINGLE_LIST_ENTRY ListHead, PSINGLE_LIST_ENTRY ListEntry, PKSPIN_LOCK Lock) {
    KIRQL level;
    PSINGLE_LIST_ENTRY first;
    KeAcquireSpinLock(Lock, &level);
    first = ListHead->Next;
    PushEntryList(ListHead, ListEntry);
    KeReleaseSpinLock(Lock, level);
    return first;
}

PSINGLE_LIST_ENTRY ExInterlockedPopEntryList(PSINGLE_LIST_ENTRY ListHead, PKSPIN_LOCK Lock) {
    KIRQL level;
    PSINGLE_LIST_ENTRY first;
    KeAcquireSpinLock(Lock, &level);
    first = PopEntryList(ListHead);
    KeReleaseSpinLock(Lock, level);
    return first;
}

/* The lock of a head is held for a few instructions, in which no host function is called. */
static VOID lock_list(PSLIST_HEADER head) {
    while (__atomic_exchange_n(&head->Lock, 1, __ATOMIC_ACQUIRE) != 0) {
    }
}

static VOID unlock_list(PSLIST_HEADER head) {
    __atomic_store_n(&head->Lock, 0, __ATOMIC_RELEASE);
}

VOID InitializeSListHead(PSLIST_HEADER ListHead) {
    if (((ULONG_PTR)ListHead & 15) != 0) {
        report("code-list", "InitializeSListHead of a head that is not aligned to 16 bytes");
    }
    RtlZeroMemory(ListHead, sizeof(*ListHead));
}

PSLIST_ENTRY InterlockedPushEntrySList(PSLIST_HEADER ListHead, PSLIST_ENTRY ListEntry) {
    PSLIST_ENTRY first;
    check("InterlockedPushEntrySList", DISPATCH_LEVEL);
    lock_list(ListHead);
    first = ListHead->Next;
    ListEntry->Next = first;
    ListHead->Next = ListEntry;
    ListHead->Depth++;
    unlock_list(ListHead);
    return first;
}

PSLIST_ENTRY InterlockedPopEntrySList(PSLIST_HEADER ListHead) {
    PSLIST_ENTRY first;
    check("InterlockedPopEntrySList", DISPATCH_LEVEL);
    lock_list(ListHead);
    first = ListHead->Next;
    if (first != NULL) {
        ListHead->Next = first->Next;
        ListHead->Depth--;
    }
    unlock_list(ListHead);
    return first;
}

PSLIST_ENTRY InterlockedFlushSList(PSLIST_HEADER ListHead) {
    PSLIST_ENTRY first;
    check("InterlockedFlushSList", DISPATCH_LEVEL);
    lock_list(ListHead);
    first = ListHead->Next;
    ListHead->Next = NULL;
    ListHead->Depth = 0;
    unlock_list(ListHead);
    return first;
}

USHORT ExQueryDepthSList(PSLIST_HEADER SListHead) {
    return SListHead->Depth;
}

/* Buffers of registers, and ports. The device has no ports: a read returns ones. */

#define BUFFER(name, type, read) \
    VOID READ_REGISTER_##name(volatile type *Register, type *Buffer, ULONG Count) { \
        ULONG i; \
        for (i = 0; i < Count; i++) { \
            Buffer[i] = read(Register + i); \
        } \
    }

BUFFER(BUFFER_ULONG, ULONG, READ_REGISTER_ULONG)
BUFFER(NOFENCE_BUFFER_ULONG, ULONG, READ_REGISTER_ULONG)
BUFFER(BUFFER_UCHAR, UCHAR, READ_REGISTER_UCHAR)

VOID WRITE_REGISTER_BUFFER_ULONG(volatile ULONG *Register, PULONG Buffer, ULONG Count) {
    ULONG i;
    for (i = 0; i < Count; i++) {
        WRITE_REGISTER_ULONG(Register + i, Buffer[i]);
    }
}

VOID WRITE_REGISTER_BUFFER_UCHAR(volatile UCHAR *Register, PUCHAR Buffer, ULONG Count) {
    ULONG i;
    for (i = 0; i < Count; i++) {
        WRITE_REGISTER_UCHAR(Register + i, Buffer[i]);
    }
}

static VOID no_port(const char *function, PVOID port) {
    report("code-port", "%s of %p: the device has no ports", function, port);
}

#define PORT(name, type) \
    type READ_PORT_##name(type *Port) { \
        no_port("READ_PORT_" #name, Port); \
        return (type)~(type)0; \
    } \
    VOID WRITE_PORT_##name(type *Port, type Value) { \
        UNREFERENCED_PARAMETER(Value); \
        no_port("WRITE_PORT_" #name, Port); \
    }

PORT(UCHAR, UCHAR)
PORT(USHORT, USHORT)
PORT(ULONG, ULONG)

/* Bitmaps */

#define NO_BITS 0xFFFFFFFFu

VOID RtlInitializeBitMap(PRTL_BITMAP BitMapHeader, PULONG BitMapBuffer, ULONG SizeOfBitMap) {
    BitMapHeader->SizeOfBitMap = SizeOfBitMap;
    BitMapHeader->Buffer = BitMapBuffer;
}

static BOOLEAN are_bits(const char *function, PRTL_BITMAP map, ULONG first, ULONG count) {
    if ((ULONG64)first + count > map->SizeOfBitMap) {
        report(
            "code-bitmap",
            "%s of the bits %u to %llu of a bitmap with %u", function, first,
            (unsigned long long)first + count, map->SizeOfBitMap);
        return FALSE;
    }
    return TRUE;
}

static BOOLEAN bit_at(const RTL_BITMAP *map, ULONG bit) {
    return (map->Buffer[bit / 32] >> bit % 32 & 1) != 0;
}

static VOID change_bits(
    const char *function, PRTL_BITMAP map, ULONG first, ULONG count, BOOLEAN set) {
    ULONG i;
    if (are_bits(function, map, first, count)) {
        for (i = first; i < first + count; i++) {
            if (set) {
                map->Buffer[i / 32] |= 1u << i % 32;
            } else {
                map->Buffer[i / 32] &= ~(1u << i % 32);
            }
        }
    }
}

VOID RtlClearAllBits(PRTL_BITMAP BitMapHeader) {
    memset(BitMapHeader->Buffer, 0, ((SIZE_T)BitMapHeader->SizeOfBitMap + 31) / 32 * 4);
}

VOID RtlSetAllBits(PRTL_BITMAP BitMapHeader) {
    memset(BitMapHeader->Buffer, 0xFF, ((SIZE_T)BitMapHeader->SizeOfBitMap + 31) / 32 * 4);
}

VOID RtlClearBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber) {
    change_bits("RtlClearBit", BitMapHeader, BitNumber, 1, FALSE);
}

VOID RtlSetBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber) {
    change_bits("RtlSetBit", BitMapHeader, BitNumber, 1, TRUE);
}

BOOLEAN RtlTestBit(PRTL_BITMAP BitMapHeader, ULONG BitNumber) {
    return are_bits("RtlTestBit", BitMapHeader, BitNumber, 1) && bit_at(BitMapHeader, BitNumber);
}

VOID RtlClearBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToClear) {
    change_bits("RtlClearBits", BitMapHeader, StartingIndex, NumberToClear, FALSE);
}

VOID RtlSetBits(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG NumberToSet) {
    change_bits("RtlSetBits", BitMapHeader, StartingIndex, NumberToSet, TRUE);
}

static BOOLEAN all_are(const RTL_BITMAP *map, ULONG first, ULONG count, BOOLEAN set) {
    ULONG i;
    if ((ULONG64)first + count > map->SizeOfBitMap) {
        return FALSE;
    }
    for (i = first; i < first + count; i++) {
        if (bit_at(map, i) != set) {
            return FALSE;
        }
    }
    return TRUE;
}

BOOLEAN RtlAreBitsClear(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length) {
    return all_are(BitMapHeader, StartingIndex, Length, FALSE);
}

BOOLEAN RtlAreBitsSet(PRTL_BITMAP BitMapHeader, ULONG StartingIndex, ULONG Length) {
    return all_are(BitMapHeader, StartingIndex, Length, TRUE);
}

/* From the hint to the end, then from the start. */
ULONG RtlFindClearBits(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex) {
    ULONG size = BitMapHeader->SizeOfBitMap;
    ULONG i;
    if (NumberToFind > size) {
        return NO_BITS;
    }
    for (i = 0; i < size; i++) {
        ULONG at = (ULONG)(((ULONG64)(HintIndex < size ? HintIndex : 0) + i) % size);
        if (all_are(BitMapHeader, at, NumberToFind, FALSE)) {
            return at;
        }
    }
    return NO_BITS;
}

ULONG RtlFindClearBitsAndSet(PRTL_BITMAP BitMapHeader, ULONG NumberToFind, ULONG HintIndex) {
    ULONG at = RtlFindClearBits(BitMapHeader, NumberToFind, HintIndex);
    if (at != NO_BITS) {
        RtlSetBits(BitMapHeader, at, NumberToFind);
    }
    return at;
}

ULONG RtlNumberOfSetBits(PRTL_BITMAP BitMapHeader) {
    ULONG count = 0;
    ULONG i;
    for (i = 0; i < BitMapHeader->SizeOfBitMap; i++) {
        count += bit_at(BitMapHeader, i);
    }
    return count;
}
