// As product.h, for the sources of the tests.

#ifndef TWINPATH_CMAKE_PRECOMPILED_TESTS_H_
#define TWINPATH_CMAKE_PRECOMPILED_TESTS_H_

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/product.h"

#endif  // TWINPATH_CMAKE_PRECOMPILED_TESTS_H_
