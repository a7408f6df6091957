/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * Integer types under the names used by libbpf's headers and the kernel's sources, for programs
 * that include none of the kernel's own headers.
 */
#ifndef YUZURI_TYPES_H
#define YUZURI_TYPES_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
enum { false, true };

#endif
