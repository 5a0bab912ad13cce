//go:build !unix

package main

import (
	"errors"
	"os"
)

// These signals do not exist here.
var statsSignal, childSignal os.Signal

// caught is empty where there are no signals to pass on.
var caught []os.Signal

func pollable(f *os.File) (_ *os.File, restore func()) { return f, func() {} }

func openFD(int) (*os.File, error) {
	return nil, errors.New("not supported on this system")
}
