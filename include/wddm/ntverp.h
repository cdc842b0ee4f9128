/* The version of the system that the headers describe: WDDM 3.2 came with build 26100. */
#ifndef TIDEGATE_WDDM_NTVERP_H
#define TIDEGATE_WDDM_NTVERP_H

#define VER_PRODUCTMAJORVERSION 10
#define VER_PRODUCTMINORVERSION 0
#define VER_PRODUCTBUILD 26100
#define VER_PRODUCTBUILD_QFE 1

#endif
