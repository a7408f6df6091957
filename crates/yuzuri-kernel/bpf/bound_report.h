/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0
 *
 * What the window control reports to the monitor about a flow: the last word of the socket's
 * private area. Either side may be of another version, and another congestion control may store
 * anything there: the upper bytes mark a valid report.
 */
#ifndef YUZURI_BOUND_REPORT_H
#define YUZURI_BOUND_REPORT_H

#define BOUND_REPORT 12 /* index in the words of icsk_ca_priv */
#define BOUND_REPORT_BY_CONTROL 0x79757a75bd02e100ull
#define BOUND_REPORT_AT_BOUND 1 /* the window was at its upper bound at the last ACK */

#endif
