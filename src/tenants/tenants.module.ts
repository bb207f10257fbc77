import { Module } from '@nestjs/common';
import { Login } from './login.js';
import { TenantDirectory } from './tenant-directory.js';

@Module({ providers: [TenantDirectory, Login], exports: [TenantDirectory, Login] })
export class TenantsModule {}
