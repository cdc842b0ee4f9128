/*
 * Requests to files and to other drivers. Part of tidegate_nt.c. The host has neither, so no file
 * opens and each request fails.
 */

static struct _OBJECT_TYPE file_type;
static POBJECT_TYPE file_type_at = &file_type;
POBJECT_TYPE *IoFileObjectType = &file_type_at;

NTSTATUS ZwCreateFile(
    PHANDLE FileHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    PIO_STATUS_BLOCK IoStatusBlock, PLARGE_INTEGER AllocationSize, ULONG FileAttributes,
    ULONG ShareAccess, ULONG CreateDisposition, ULONG CreateOptions, PVOID EaBuffer,
    ULONG EaLength) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    UNREFERENCED_PARAMETER(ObjectAttributes);
    UNREFERENCED_PARAMETER(AllocationSize);
    UNREFERENCED_PARAMETER(FileAttributes);
    UNREFERENCED_PARAMETER(ShareAccess);
    UNREFERENCED_PARAMETER(CreateDisposition);
    UNREFERENCED_PARAMETER(CreateOptions);
    UNREFERENCED_PARAMETER(EaBuffer);
    UNREFERENCED_PARAMETER(EaLength);
    check("ZwCreateFile", PASSIVE_LEVEL);
    *FileHandle = NULL;
    IoStatusBlock->Status = STATUS_OBJECT_NAME_NOT_FOUND;
    IoStatusBlock->Information = 0;
    return STATUS_OBJECT_NAME_NOT_FOUND;
}

PDEVICE_OBJECT IoGetRelatedDeviceObject(PFILE_OBJECT FileObject) {
    UNREFERENCED_PARAMETER(FileObject);
    check("IoGetRelatedDeviceObject", DISPATCH_LEVEL);
    return NULL;
}

/* Returns a request that IoCallDriver ends. */
static PIRP new_request(PKEVENT event, PIO_STATUS_BLOCK status) {
    PIRP request = (PIRP)ExAllocatePoolZero(NonPagedPoolNx, sizeof(IRP), 0x20707249);
    if (request != NULL) {
        request->UserEvent = event;
        request->UserIosb = status;
    }
    return request;
}

PIRP IoBuildSynchronousFsdRequest(
    ULONG MajorFunction, PDEVICE_OBJECT DeviceObject, PVOID Buffer, ULONG Length,
    PLARGE_INTEGER StartingOffset, PKEVENT Event, PIO_STATUS_BLOCK IoStatusBlock) {
    PIRP request;
    UNREFERENCED_PARAMETER(DeviceObject);
    UNREFERENCED_PARAMETER(Buffer);
    UNREFERENCED_PARAMETER(Length);
    UNREFERENCED_PARAMETER(StartingOffset);
    check("IoBuildSynchronousFsdRequest", PASSIVE_LEVEL);
    request = new_request(Event, IoStatusBlock);
    if (request != NULL) {
        IoGetNextIrpStackLocation(request)->MajorFunction = (UCHAR)MajorFunction;
    }
    return request;
}

PIRP IoBuildDeviceIoControlRequest(
    ULONG IoControlCode, PDEVICE_OBJECT DeviceObject, PVOID InputBuffer, ULONG InputBufferLength,
    PVOID OutputBuffer, ULONG OutputBufferLength, BOOLEAN InternalDeviceIoControl, PKEVENT Event,
    PIO_STATUS_BLOCK IoStatusBlock) {
    PIRP request;
    UNREFERENCED_PARAMETER(IoControlCode);
    UNREFERENCED_PARAMETER(DeviceObject);
    UNREFERENCED_PARAMETER(InputBuffer);
    UNREFERENCED_PARAMETER(InputBufferLength);
    UNREFERENCED_PARAMETER(OutputBuffer);
    UNREFERENCED_PARAMETER(OutputBufferLength);
    check("IoBuildDeviceIoControlRequest", PASSIVE_LEVEL);
    request = new_request(Event, IoStatusBlock);
    if (request != NULL) {
        IoGetNextIrpStackLocation(request)->MajorFunction =
            InternalDeviceIoControl ? IRP_MJ_INTERNAL_DEVICE_CONTROL : IRP_MJ_DEVICE_CONTROL;
    }
    return request;
}

NTSTATUS IofCallDriver(PDEVICE_OBJECT DeviceObject, PIRP Irp) {
    PKEVENT event = Irp->UserEvent;
    UNREFERENCED_PARAMETER(DeviceObject);
    check("IoCallDriver", DISPATCH_LEVEL);
    if (Irp->UserIosb != NULL) {
        Irp->UserIosb->Status = STATUS_INVALID_DEVICE_REQUEST;
        Irp->UserIosb->Information = 0;
    }
    ExFreePool(Irp);
    if (event != NULL) {
        (void)KeSetEvent(event, 0, FALSE);
    }
    return STATUS_INVALID_DEVICE_REQUEST;
}
