/* After this header, DEFINE_GUID defines identifiers; before, it declares them. */
#ifndef TIDEGATE_WDDM_INITGUID_H
#define TIDEGATE_WDDM_INITGUID_H

#ifndef INITGUID
#define INITGUID
#endif

#include "ntddk.h"

#undef DEFINE_GUID
#define DEFINE_GUID TIDEGATE_DEFINE_GUID

#endif
