/*
 * Objects, handles and the registry. Part of tidegate_nt.c. The host has the keys and values.
 */

#define ROOT_PATH 0u
#define ROOT_DEVICE 1u
#define ROOT_DRIVER 2u
#define ROOT_SERVICES 3u

/* Bytes of the largest value. */
#define VALUE_BYTES 4096u

struct _OBJECT_TYPE {
    ULONG_PTR Opaque;
};

static struct _OBJECT_TYPE thread_type;
static POBJECT_TYPE thread_type_at = &thread_type;
POBJECT_TYPE *PsThreadType = &thread_type_at;

NTSTATUS ObReferenceObjectByHandle(
    HANDLE Handle, ACCESS_MASK DesiredAccess, POBJECT_TYPE ObjectType, KPROCESSOR_MODE AccessMode,
    PVOID *Object, POBJECT_HANDLE_INFORMATION HandleInformation) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    UNREFERENCED_PARAMETER(ObjectType);
    UNREFERENCED_PARAMETER(AccessMode);
    UNREFERENCED_PARAMETER(HandleInformation);
    check("ObReferenceObjectByHandle", PASSIVE_LEVEL);
    *Object = NULL;
    if (!host->ReferenceHandle(host->Host, Handle)) {
        return STATUS_INVALID_HANDLE;
    }
    *Object = (PVOID)Handle;
    return STATUS_SUCCESS;
}

VOID ObReferenceObject(PVOID Object) {
    check("ObReferenceObject", DISPATCH_LEVEL);
    host->Reference(host->Host, Object);
}

VOID ObDereferenceObject(PVOID Object) {
    check("ObDereferenceObject", DISPATCH_LEVEL);
    host->Dereference(host->Host, Object);
}

NTSTATUS ZwClose(HANDLE Handle) {
    check("ZwClose", PASSIVE_LEVEL);
    return host->CloseHandle(host->Host, Handle) ? STATUS_SUCCESS : STATUS_INVALID_HANDLE;
}

/* Keys */

static NTSTATUS open_key(
    PHANDLE handle, ULONG root, HANDLE parent, PCWSTR path, SIZE_T characters, BOOLEAN create) {
    *handle = NULL;
    return host->OpenKey(host->Host, root, parent, path, (ULONG)characters, create, handle);
}

static NTSTATUS open_named(
    const char *function, PHANDLE handle, POBJECT_ATTRIBUTES attributes, BOOLEAN create) {
    PUNICODE_STRING name = attributes->ObjectName;
    check(function, PASSIVE_LEVEL);
    if ((attributes->Attributes & OBJ_KERNEL_HANDLE) == 0) {
        report(
            "code-registry",
            "%s without OBJ_KERNEL_HANDLE: a process could use the handle", function);
    }
    return open_key(
        handle, ROOT_PATH, attributes->RootDirectory, name == NULL ? NULL : name->Buffer,
        name == NULL ? 0 : name->Length / sizeof(WCHAR), create);
}

NTSTATUS ZwOpenKey(
    PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    return open_named("ZwOpenKey", KeyHandle, ObjectAttributes, FALSE);
}

NTSTATUS ZwCreateKey(
    PHANDLE KeyHandle, ACCESS_MASK DesiredAccess, POBJECT_ATTRIBUTES ObjectAttributes,
    ULONG TitleIndex, PUNICODE_STRING Class, ULONG CreateOptions, PULONG Disposition) {
    UNREFERENCED_PARAMETER(DesiredAccess);
    UNREFERENCED_PARAMETER(TitleIndex);
    UNREFERENCED_PARAMETER(Class);
    UNREFERENCED_PARAMETER(CreateOptions);
    if (Disposition != NULL) {
        /* 1 is a new key, 2 one that exists. */
        HANDLE existing;
        NTSTATUS status = open_named("ZwCreateKey", &existing, ObjectAttributes, FALSE);
        *Disposition = 1;
        if (NT_SUCCESS(status)) {
            *Disposition = 2;
            *KeyHandle = existing;
            return status;
        }
    }
    return open_named("ZwCreateKey", KeyHandle, ObjectAttributes, TRUE);
}

NTSTATUS IoOpenDeviceRegistryKey(
    PDEVICE_OBJECT DeviceObject, ULONG DevInstKeyType, ACCESS_MASK DesiredAccess,
    PHANDLE DeviceRegKey) {
    UNREFERENCED_PARAMETER(DeviceObject);
    UNREFERENCED_PARAMETER(DesiredAccess);
    check("IoOpenDeviceRegistryKey", PASSIVE_LEVEL);
    if (DevInstKeyType != PLUGPLAY_REGKEY_DEVICE && DevInstKeyType != PLUGPLAY_REGKEY_DRIVER) {
        return STATUS_INVALID_PARAMETER;
    }
    return open_key(
        DeviceRegKey, DevInstKeyType == PLUGPLAY_REGKEY_DEVICE ? ROOT_DEVICE : ROOT_DRIVER, NULL,
        NULL, 0, FALSE);
}

/* Values */

static NTSTATUS query_value(
    const char *function, HANDLE key, PCWSTR name, SIZE_T characters, PULONG type, PVOID data,
    PULONG bytes) {
    return host->QueryValue(
        host->Host, function, key, name, (ULONG)characters, type, (PUCHAR)data, VALUE_BYTES,
        bytes);
}

NTSTATUS ZwQueryValueKey(
    HANDLE KeyHandle, PUNICODE_STRING ValueName,
    KEY_VALUE_INFORMATION_CLASS KeyValueInformationClass, PVOID KeyValueInformation, ULONG Length,
    PULONG ResultLength) {
    UCHAR data[VALUE_BYTES];
    ULONG type, bytes, head, name = ValueName->Length;
    NTSTATUS status;
    check("ZwQueryValueKey", PASSIVE_LEVEL);
    status = query_value(
        "ZwQueryValueKey", KeyHandle, ValueName->Buffer, name / sizeof(WCHAR), &type, data,
        &bytes);
    if (!NT_SUCCESS(status)) {
        return status;
    }
    switch (KeyValueInformationClass) {
    case KeyValuePartialInformation: {
        PKEY_VALUE_PARTIAL_INFORMATION out = (PKEY_VALUE_PARTIAL_INFORMATION)KeyValueInformation;
        head = FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data);
        *ResultLength = head + bytes;
        if (Length < head) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        out->TitleIndex = 0;
        out->Type = type;
        out->DataLength = bytes;
        memcpy(out->Data, data, bytes < Length - head ? bytes : Length - head);
        break;
    }
    case KeyValueFullInformation: {
        PKEY_VALUE_FULL_INFORMATION out = (PKEY_VALUE_FULL_INFORMATION)KeyValueInformation;
        ULONG start = (FIELD_OFFSET(KEY_VALUE_FULL_INFORMATION, Name) + name + 7u) & ~7u;
        head = FIELD_OFFSET(KEY_VALUE_FULL_INFORMATION, Name);
        *ResultLength = start + bytes;
        if (Length < head) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        out->TitleIndex = 0;
        out->Type = type;
        out->DataOffset = start;
        out->DataLength = bytes;
        out->NameLength = name;
        if (Length >= start + bytes) {
            memcpy(out->Name, ValueName->Buffer, name);
            memcpy((PUCHAR)out + start, data, bytes);
        }
        break;
    }
    case KeyValueBasicInformation: {
        PKEY_VALUE_BASIC_INFORMATION out = (PKEY_VALUE_BASIC_INFORMATION)KeyValueInformation;
        head = FIELD_OFFSET(KEY_VALUE_BASIC_INFORMATION, Name);
        *ResultLength = head + name;
        if (Length < head) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        out->TitleIndex = 0;
        out->Type = type;
        out->NameLength = name;
        memcpy(out->Name, ValueName->Buffer, name < Length - head ? name : Length - head);
        break;
    }
    default:
        return STATUS_INVALID_PARAMETER;
    }
    return Length < *ResultLength ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}

NTSTATUS ZwSetValueKey(
    HANDLE KeyHandle, PUNICODE_STRING ValueName, ULONG TitleIndex, ULONG Type, PVOID Data,
    ULONG DataSize) {
    UNREFERENCED_PARAMETER(TitleIndex);
    check("ZwSetValueKey", PASSIVE_LEVEL);
    if (DataSize > VALUE_BYTES) {
        return STATUS_INVALID_PARAMETER;
    }
    return host->SetValue(
        host->Host, KeyHandle, ValueName->Buffer, ValueName->Length / sizeof(WCHAR), Type,
        (const UCHAR *)Data, DataSize);
}

NTSTATUS ZwFlushKey(HANDLE KeyHandle) {
    UNREFERENCED_PARAMETER(KeyHandle);
    check("ZwFlushKey", PASSIVE_LEVEL);
    return STATUS_SUCCESS;
}

/* Tables of values */

static NTSTATUS open_relative(ULONG relative, PCWSTR path, BOOLEAN create, PHANDLE key) {
    ULONG root = (relative & 0xFFFF) == RTL_REGISTRY_SERVICES ? ROOT_SERVICES : ROOT_PATH;
    return open_key(key, root, NULL, path, path == NULL ? 0 : length_w(path, 0x8000), create);
}

/* A numeric value goes where EntryContext points; a string into a UNICODE_STRING there. */
static NTSTATUS store_direct(
    const RTL_QUERY_REGISTRY_TABLE *row, ULONG type, PCVOID data, ULONG bytes) {
    if ((row->Flags & RTL_QUERY_REGISTRY_TYPECHECK) == 0) {
        report(
            "code-registry",
            "RtlQueryRegistryValues with RTL_QUERY_REGISTRY_DIRECT and without "
            "RTL_QUERY_REGISTRY_TYPECHECK: a value of another type overruns the buffer");
    } else if (row->DefaultType >> RTL_QUERY_REGISTRY_TYPECHECK_SHIFT != type) {
        return STATUS_OBJECT_TYPE_MISMATCH;
    }
    if (type == REG_SZ || type == REG_EXPAND_SZ || type == REG_MULTI_SZ) {
        PUNICODE_STRING to = (PUNICODE_STRING)row->EntryContext;
        if (to->Buffer == NULL) {
            to->Buffer = (PWSTR)allocate(bytes, STRING_TAG, TRUE);
            to->MaximumLength = (USHORT)bytes;
            if (to->Buffer == NULL) {
                return STATUS_NO_MEMORY;
            }
        }
        if (bytes > to->MaximumLength) {
            return STATUS_BUFFER_TOO_SMALL;
        }
        memcpy(to->Buffer, data, bytes);
        to->Length = (USHORT)(bytes - sizeof(WCHAR));
        return STATUS_SUCCESS;
    }
    if (bytes > sizeof(ULONG)) {
        /* The first word says how many bytes there are; a negative one allows any type. */
        LONG room = *(PLONG)row->EntryContext;
        if (room >= 0 || (ULONG)(0 - room) < bytes) {
            return STATUS_BUFFER_TOO_SMALL;
        }
    }
    memcpy(row->EntryContext, data, bytes);
    return STATUS_SUCCESS;
}

static NTSTATUS query_row(
    HANDLE key, const RTL_QUERY_REGISTRY_TABLE *row, PVOID context) {
    UCHAR data[VALUE_BYTES];
    PVOID value = data;
    ULONG type, bytes;
    NTSTATUS status = query_value(
        "RtlQueryRegistryValues", key, row->Name, length_w(row->Name, 0x8000), &type, data,
        &bytes);
    if (!NT_SUCCESS(status)) {
        if ((row->Flags & RTL_QUERY_REGISTRY_REQUIRED) != 0) {
            return status;
        }
        type = row->DefaultType & 0xFFFFFF;
        if (type == REG_NONE) {
            return STATUS_SUCCESS;
        }
        value = row->DefaultData;
        bytes = row->DefaultLength;
        if (bytes == 0 && (type == REG_SZ || type == REG_EXPAND_SZ) && value != NULL) {
            bytes = (ULONG)((length_w((PCWSTR)value, 0x8000) + 1) * sizeof(WCHAR));
        } else if (bytes == 0 && type == REG_DWORD) {
            bytes = sizeof(ULONG);
        }
        if (value == NULL) {
            return STATUS_SUCCESS;
        }
    }
    if ((row->Flags & RTL_QUERY_REGISTRY_DIRECT) != 0) {
        return store_direct(row, type, value, bytes);
    }
    return row->QueryRoutine(row->Name, type, value, bytes, context, row->EntryContext);
}

NTSTATUS RtlQueryRegistryValues(
    ULONG RelativeTo, PCWSTR Path, PRTL_QUERY_REGISTRY_TABLE QueryTable, PVOID Context,
    PVOID Environment) {
    BOOLEAN given = (RelativeTo & RTL_REGISTRY_HANDLE) != 0;
    HANDLE top = (HANDLE)(ULONG_PTR)Path;
    HANDLE key;
    NTSTATUS status = STATUS_SUCCESS;
    UNREFERENCED_PARAMETER(Environment);
    check("RtlQueryRegistryValues", PASSIVE_LEVEL);
    if (!given) {
        status = open_relative(RelativeTo, Path, FALSE, &top);
        if (!NT_SUCCESS(status)) {
            return status;
        }
    }
    key = top;
    for (; NT_SUCCESS(status) && (QueryTable->Name != NULL || QueryTable->QueryRoutine != NULL);
         QueryTable++) {
        if ((QueryTable->Flags & (RTL_QUERY_REGISTRY_SUBKEY | RTL_QUERY_REGISTRY_TOPKEY)) != 0 &&
            key != top) {
            (void)host->CloseHandle(host->Host, key);
            key = top;
        }
        if ((QueryTable->Flags & RTL_QUERY_REGISTRY_SUBKEY) != 0) {
            HANDLE below;
            NTSTATUS opened = open_key(
                &below, ROOT_PATH, top, QueryTable->Name, length_w(QueryTable->Name, 0x8000),
                FALSE);
            if (NT_SUCCESS(opened)) {
                key = below;
            } else if ((QueryTable->Flags & RTL_QUERY_REGISTRY_REQUIRED) != 0) {
                status = opened;
            }
        } else if (QueryTable->Name != NULL) {
            status = query_row(key, QueryTable, Context);
        }
    }
    if (key != top) {
        (void)host->CloseHandle(host->Host, key);
    }
    if (!given) {
        (void)host->CloseHandle(host->Host, top);
    }
    return status;
}

NTSTATUS RtlWriteRegistryValue(
    ULONG RelativeTo, PCWSTR Path, PCWSTR ValueName, ULONG ValueType, PVOID ValueData,
    ULONG ValueLength) {
    BOOLEAN given = (RelativeTo & RTL_REGISTRY_HANDLE) != 0;
    HANDLE key = (HANDLE)(ULONG_PTR)Path;
    UNICODE_STRING name;
    NTSTATUS status;
    check("RtlWriteRegistryValue", PASSIVE_LEVEL);
    if (!given) {
        status = open_relative(RelativeTo, Path, TRUE, &key);
        if (!NT_SUCCESS(status)) {
            return status;
        }
    }
    RtlInitUnicodeString(&name, ValueName);
    status = ZwSetValueKey(key, &name, 0, ValueType, ValueData, ValueLength);
    if (!given) {
        (void)host->CloseHandle(host->Host, key);
    }
    return status;
}

/* Properties of the device: its bus, its place there, its hardware identifiers. */

NTSTATUS IoGetDeviceProperty(
    PDEVICE_OBJECT DeviceObject, DEVICE_REGISTRY_PROPERTY DeviceProperty, ULONG BufferLength,
    PVOID PropertyBuffer, PULONG ResultLength) {
    static const CHAR description[] = "Tidegate GPU";
    static const CHAR identifier[] = "PCI\\TIDEGATE\0";
    WCHAR text[32];
    ULONG number = 0;
    PCVOID value = &number;
    ULONG bytes = sizeof(number);
    SIZE_T i;
    UNREFERENCED_PARAMETER(DeviceObject);
    check("IoGetDeviceProperty", PASSIVE_LEVEL);
    switch (DeviceProperty) {
    case DevicePropertyDeviceDescription:
        for (i = 0; i < sizeof(description); i++) {
            text[i] = (WCHAR)description[i];
        }
        value = text;
        bytes = sizeof(description) * sizeof(WCHAR);
        break;
    case DevicePropertyHardwareID:
        for (i = 0; i < sizeof(identifier); i++) {
            text[i] = (WCHAR)identifier[i];
        }
        value = text;
        bytes = sizeof(identifier) * sizeof(WCHAR);
        break;
    case DevicePropertyBusNumber:
    case DevicePropertyAddress:
        break;
    default:
        return STATUS_INVALID_PARAMETER_2;
    }
    *ResultLength = bytes;
    if (BufferLength < bytes) {
        return STATUS_BUFFER_TOO_SMALL;
    }
    memcpy(PropertyBuffer, value, bytes);
    return STATUS_SUCCESS;
}
