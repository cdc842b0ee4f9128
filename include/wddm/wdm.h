/* The name by which some drivers include ntddk.h. */
#ifndef TIDEGATE_WDDM_WDM_H
#define TIDEGATE_WDDM_WDM_H

#include "ntddk.h"

#endif
